"""``inbox drain``: one DAG run for each message, through defects of messages and faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from airflow.api.common import trigger_dag

from airflow_provider_workflow.dispatch.payloads import payload_of
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.cli.conftest import Cli, Terminal
from tests.unit.cli.database import Database
from tests.unit.client.isolation import forget
from tests.unit.defective import DefectiveService

DRAIN = ("inbox", "drain", "orders", "--trigger-dag-id", "handle")


@pytest.fixture(autouse=True)
def handle(database: Database) -> Database:
    database.add_dag("handle")
    return database


@pytest.fixture(autouse=True)
def orders(emulator: EmulatorServer) -> str:
    return emulator.open_inbox("orders")


def put(emulator: EmulatorServer, *ids: str) -> None:
    emulator.put("orders", *({"n": each} for each in ids), ids=list(ids))


def states(emulator: EmulatorServer) -> dict[str, str]:
    return {each["id"]: each["status"] for each in emulator.summary("orders")["messages"]}


def counts(result: Any) -> list[int]:
    return [result[name]["count"] for name in ("started", "existing", "rejected")]


@pytest.fixture
def at_start(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What happens before each further run is started: an error that is raised, or something called."""
    steps: list[Any] = []
    start = trigger_dag.trigger_dag

    def stepping(dag_id: str, **given: Any) -> Any:
        step = steps.pop(0) if steps else None
        if isinstance(step, BaseException):
            raise step
        if step is not None:
            step()
        return start(dag_id, **given)

    monkeypatch.setattr(trigger_dag, "trigger_dag", stepping)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    return steps


def test_progress_is_shown_at_a_terminal(
    cli: Cli, emulator: EmulatorServer, at_start: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(emulator, "a", "b", "c")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)

    shown = cli(*DRAIN, "--max-messages", "2", "-o", "json")

    assert (shown.code, counts(shown.json)) == (0, [2, 0, 0])
    assert "0 messages: 0 started, 0 existing, 0 rejected" in terminal.getvalue()
    assert "2 messages: 2 started, 0 existing, 0 rejected" in terminal.getvalue()
    assert terminal.getvalue().endswith(
        "Inbox orders: one task has handled as many messages as it may, or for as long as it may.\n"
    )


def test_a_message_is_acknowledged_only_after_its_run_exists(
    cli: Cli, emulator: EmulatorServer, at_start: list[Any]
) -> None:
    put(emulator, "a")
    at_start.append(lambda: seen.append(states(emulator)))
    seen: list[Any] = []

    cli(*DRAIN)

    assert seen == [{"a": "leased"}]
    assert states(emulator) == {"a": "acked"}


def test_a_message_that_comes_again_finds_its_run(
    cli: Cli, emulator: EmulatorServer, handle: Database, orders: str
) -> None:
    put(emulator, "a", "b")
    cli(*DRAIN)
    put(emulator, "c")
    emulator.put("orders", {"again": 1}, ids=["a"])

    shown = cli(*DRAIN, "-o", "json")

    assert counts(shown.json) == [1, 1, 0]
    assert set(handle.runs("handle")) == {run_id_of(each, orders) for each in "abc"}


def test_a_dag_with_import_errors_is_said_before_anything_is_leased(
    cli: Cli, emulator: EmulatorServer, handle: Database
) -> None:
    put(emulator, "a")
    handle.change("handle", has_import_errors=True)

    assert cli(*DRAIN).code == 1
    assert emulator.count("lease") == 0


def test_no_more_messages_are_leased_than_were_asked_for(cli: Cli, emulator: EmulatorServer) -> None:
    put(emulator, "a", "b", "c")

    assert counts(cli(*DRAIN, "--max-messages", "2", "-o", "json").json) == [2, 0, 0]
    assert states(emulator) == {"a": "acked", "b": "acked", "c": "available"}
    assert emulator.count("release") == 0


def test_no_more_messages_are_leased_than_there_is_room_for(
    cli: Cli, emulator: EmulatorServer, handle: Database
) -> None:
    put(emulator, "a", "b", "c")
    more = ("--max-unfinished-runs", "2", "-o", "json")

    shown = cli(*DRAIN, *more)
    assert (shown.code, counts(shown.json)) == (0, [2, 0, 0])
    assert "as many unfinished runs as it may" in shown.err
    assert counts(cli(*DRAIN, *more).json) == [0, 0, 0]
    assert emulator.count("release") == 0
    handle.end_runs("handle")
    assert counts(cli(*DRAIN, *more).json) == [1, 0, 0]


MARK = "MARK OF A DEFECT"
DEEP = b"[" * 100_000 + b"]" * 100_000
DEFECTS: dict[str, tuple[bytes, bytes, Any]] = {
    "not UTF-8": (MARK.encode(), b"\xff", {"name": "Andr\udcff"}),
    "Latin-1": (MARK.encode(), "é".encode("latin-1"), {"name": "Andr\udce9"}),
    "an unknown escape": (MARK.encode(), rb"\x41", r'{"name":"Andr\x41"}'),
    "too deep": (f'"Andr{MARK}"'.encode(), DEEP, f'{{"name":{DEEP.decode()}}}'),
    "no value": (f'"Andr{MARK}"'.encode(), b"", '{"name":}'),
}
IDS = [f"m-{number:02}" for number in range(21)]
BAD = IDS[10]


Alter = Callable[[dict[bytes, bytes]], None]


@pytest.fixture
def alter(connected: EmulatorServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Alter]:
    """Alters the answers of the service."""
    with ExitStack() as running:

        def serve(defects: dict[bytes, bytes]) -> None:
            service = running.enter_context(DefectiveService(connected, defects))
            connection = {**connected.connection(), "host": service.url}
            monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(connection))
            forget()

        yield serve


@pytest.fixture(params=DEFECTS)
def sent(request: pytest.FixtureRequest, emulator: EmulatorServer, alter: Alter) -> Any:
    """The payloads of 21 messages, of which one has a defect, as they have to arrive."""
    payloads = [{"name": f"Andr{MARK}" if each == BAD else each} for each in IDS]
    emulator.put("orders", *payloads, ids=IDS)
    found, put, expected = DEFECTS[request.param]
    alter({found: put})
    return {each: expected if each == BAD else {"name": each} for each in IDS}


def test_a_hook_leases_the_others_and_the_text_of_the_bad_one(sent: dict[str, Any]) -> None:
    lease = WorkflowHook().lease_messages("orders", 100, 300)

    assert [(message["id"], message["payload"]) for message in lease["results"]] == list(sent.items())


def test_each_message_has_its_run_in_one_drain(
    cli: Cli, emulator: EmulatorServer, sent: dict[str, Any], handle: Database, orders: str
) -> None:
    shown = cli(*DRAIN, "-o", "json")

    assert shown.code == 0, shown.err
    assert shown.json["started"]["count"] == len(IDS)
    assert states(emulator) == dict.fromkeys(IDS, "acked")
    runs = handle.runs("handle")
    assert {each: payload_of(runs[run_id_of(each, orders)]["message"]) for each in IDS} == sent


@pytest.mark.parametrize("entry", [b"null", b"7", b"[]", b"undefined"])
def test_an_entry_that_is_no_message_is_counted_and_the_others_have_their_runs(
    entry: bytes, cli: Cli, emulator: EmulatorServer, alter: Alter, handle: Database, orders: str
) -> None:
    put(emulator, "a", "b", "c")
    alter({b'"results": [': b'"results": [%s, ' % entry, b'"results":[': b'"results":[%s,' % entry})

    shown = cli(*DRAIN, "--max-messages", "10", "-o", "json")

    assert set(handle.runs("handle")) == {run_id_of(each, orders) for each in "abc"}
    assert states(emulator) == dict.fromkeys("abc", "acked")
    assert shown.json["started"]["count"] == 3


def test_a_rejected_message_is_named_and_holds_up_no_other(
    cli: Cli, emulator: EmulatorServer, at_start: list[Any]
) -> None:
    put(emulator, "good", "bad", "other")
    at_start += [None, ValueError("Invalid input for param x: 'a value' is too long")]

    shown = cli(*DRAIN, "-o", "json")

    assert (shown.code, counts(shown.json)) == (1, [2, 0, 1])
    assert "bad: ValueError: param x" in shown.err
    assert states(emulator) == {"good": "acked", "bad": "leased", "other": "acked"}


def test_a_payload_that_airflow_cannot_store_starts_its_run(
    cli: Cli, emulator: EmulatorServer, handle: Database
) -> None:
    emulator.put("orders", {"n": 2**70, "text": "\0"})

    assert counts(cli(*DRAIN, "-o", "json").json) == [1, 0, 0]
    [conf] = handle.runs("handle").values()
    assert payload_of(conf["message"]) == {"n": 2**70, "text": "\0"}


def test_where_the_dag_goes_away_what_was_not_started_is_given_back(
    cli: Cli, emulator: EmulatorServer, handle: Database, at_start: list[Any]
) -> None:
    put(emulator, "a", "b", "c")
    at_start += [None, lambda: handle.delete_dag("handle")]

    shown = cli(*DRAIN, "-o", "json")

    assert (shown.code, counts(shown.json)) == (3, [1, 0, 0])
    # Released, the rejected message would lose a delivery to the next attempt.
    assert states(emulator) == {"a": "acked", "b": "leased", "c": "available"}


def test_a_lease_that_ended_in_between_costs_no_second_run(
    cli: Cli, emulator: EmulatorServer, handle: Database, clock: ManualClock, at_start: list[Any]
) -> None:
    put(emulator, "a")
    at_start.append(lambda: clock.advance(400))

    first = cli(*DRAIN, "-o", "json")

    assert counts(first.json) == [1, 1, 0]
    assert len(handle.runs("handle")) == 1
    assert states(emulator) == {"a": "acked"}


@pytest.mark.parametrize(("reason", "code"), [("user", 0), ("authentication", 1)])
def test_an_inbox_that_is_paused_and_empty_is_a_fault_unless_a_user_has_paused_it(
    cli: Cli, emulator: EmulatorServer, orders: str, reason: str, code: int
) -> None:
    emulator.store.inboxes.force(orders, "paused", reason)

    shown = cli(*DRAIN)

    assert shown.code == code
    assert reason in shown.err


def test_the_messages_of_a_paused_inbox_are_started(cli: Cli, emulator: EmulatorServer, orders: str) -> None:
    put(emulator, "a")
    emulator.store.inboxes.force(orders, "paused", "user")

    shown = cli(*DRAIN, "-o", "json")

    assert (shown.code, counts(shown.json)) == (0, [1, 0, 0])
    assert "paused" in shown.err
