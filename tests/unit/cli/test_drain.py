"""``inbox drain``: one run for each message, acknowledged once it exists, and nothing leased in vain."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.api.common import trigger_dag

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli
from tests.unit.cli.database import Database

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
    return [result[name]["count"] for name in ("started", "existing", "refused")]


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


@pytest.mark.parametrize("by", ["name", "id"])
def test_each_message_starts_one_run_with_what_a_dispatch_gives_it(
    cli: Cli, emulator: EmulatorServer, handle: Database, orders: str, by: str
) -> None:
    put(emulator, "a", "b")

    shown = cli("inbox", "drain", orders if by == "id" else "orders", *DRAIN[3:], "-o", "json")

    assert shown.code == 0
    assert shown.json["started"] == {"count": 2, "ids": ["a", "b"]}
    runs = handle.runs("handle")
    assert set(runs) == {"workflow__a", "workflow__b"}
    conf = runs["workflow__a"]
    assert conf["inbox_id"] == orders
    assert set(conf["message"]) == {"id", "created_at", "payload", "message_attributes"}
    assert conf["message"]["payload"] == {"n": "a"}
    assert states(emulator) == {"a": "acked", "b": "acked"}


def test_people_are_told_what_was_done(cli: Cli, emulator: EmulatorServer) -> None:
    put(emulator, "a")

    shown = cli(*DRAIN)

    assert [line.split(" | ")[:2] for line in shown.out.splitlines()[2:]] == [
        ["started ", "1    "],
        ["existing", "0    "],
        ["refused ", "0    "],
    ]
    assert shown.err == "Inbox orders: the inbox has no more messages.\n"


def test_an_inbox_without_messages_is_drained(cli: Cli) -> None:
    shown = cli(*DRAIN, "-o", "json")

    assert (shown.code, counts(shown.json)) == (0, [0, 0, 0])


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
    cli: Cli, emulator: EmulatorServer, handle: Database
) -> None:
    put(emulator, "a", "b")
    cli(*DRAIN)
    put(emulator, "c")
    emulator.put("orders", {"again": 1}, ids=["a"])

    shown = cli(*DRAIN, "-o", "json")

    assert counts(shown.json) == [1, 1, 0]
    assert set(handle.runs("handle")) == {"workflow__a", "workflow__b", "workflow__c"}


def test_a_dag_that_is_not_there_is_said_before_anything_is_leased(
    cli: Cli, emulator: EmulatorServer
) -> None:
    put(emulator, "a")

    shown = cli("inbox", "drain", "orders", "--trigger-dag-id", "missing", "-o", "json")

    assert (shown.code, shown.out) == (3, "")
    assert "'missing' was not found" in shown.err
    assert (emulator.count("lease"), states(emulator)) == (0, {"a": "available"})


def test_a_dag_with_import_errors_is_said_before_anything_is_leased(
    cli: Cli, emulator: EmulatorServer, handle: Database
) -> None:
    put(emulator, "a")
    handle.change("handle", has_import_errors=True)

    assert cli(*DRAIN).code == 1
    assert emulator.count("lease") == 0


def test_an_inbox_that_is_not_there_is_not_found(cli: Cli) -> None:
    assert cli("inbox", "drain", "nobody", *DRAIN[3:]).code == 3


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


@pytest.mark.parametrize(
    ("more", "field"),
    [(("--max-messages", "0"), "max_messages"), (("--max-unfinished-runs", "-1"), "max_unfinished_runs")],
)
def test_what_is_out_of_range_is_named_and_nothing_is_leased(
    cli: Cli, emulator: EmulatorServer, more: tuple[str, str], field: str
) -> None:
    shown = cli(*DRAIN, *more)

    assert (shown.code, emulator.count("lease")) == (2, 0)
    assert field in shown.err


def test_a_refused_message_is_named_and_holds_up_no_other(
    cli: Cli, emulator: EmulatorServer, handle: Database
) -> None:
    emulator.put("orders", {"n": 2**70}, {"n": 1}, ids=["bad", "good"])

    shown = cli(*DRAIN, "-o", "json")

    assert (shown.code, counts(shown.json)) == (1, [1, 0, 1])
    assert "bad: Airflow cannot hold its payload" in shown.err
    assert set(handle.runs("handle")) == {"workflow__good"}
    assert states(emulator) == {"bad": "leased", "good": "acked"}


def test_where_the_dag_goes_away_what_was_not_started_is_given_back(
    cli: Cli, emulator: EmulatorServer, handle: Database, at_start: list[Any]
) -> None:
    put(emulator, "a", "b", "c")
    at_start += [None, lambda: handle.delete_dag("handle")]

    shown = cli(*DRAIN, "-o", "json")

    assert (shown.code, counts(shown.json)) == (3, [1, 0, 0])
    assert states(emulator) == {"a": "acked", "b": "available", "c": "available"}


def test_ctrl_c_acknowledges_what_was_started_and_gives_the_rest_back(
    cli: Cli, emulator: EmulatorServer, at_start: list[Any]
) -> None:
    put(emulator, "a", "b", "c")
    at_start += [None, KeyboardInterrupt()]

    shown = cli(*DRAIN, "-o", "json")

    assert (shown.code, shown.err, counts(shown.json)) == (130, "", [1, 0, 0])
    assert states(emulator) == {"a": "acked", "b": "available", "c": "available"}


def test_a_lease_that_ended_in_between_costs_no_second_run(
    cli: Cli, emulator: EmulatorServer, handle: Database, clock: ManualClock, at_start: list[Any]
) -> None:
    put(emulator, "a")
    at_start.append(lambda: clock.advance(400))

    first = cli(*DRAIN, "-o", "json")

    assert counts(first.json) == [1, 0, 0]
    assert set(handle.runs("handle")) == {"workflow__a"}
    assert states(emulator) == {"a": "acked"}


@pytest.mark.parametrize("reason", ["user", "authentication"])
def test_an_inbox_that_is_paused_and_empty_is_a_fault(
    cli: Cli, emulator: EmulatorServer, orders: str, reason: str
) -> None:
    emulator.store.inboxes.force(orders, "paused", reason)

    shown = cli(*DRAIN)

    assert shown.code == 1
    assert reason in shown.err


def test_the_messages_of_a_paused_inbox_are_started(cli: Cli, emulator: EmulatorServer, orders: str) -> None:
    put(emulator, "a")
    emulator.store.inboxes.force(orders, "paused", "user")

    shown = cli(*DRAIN, "-o", "json")

    assert (shown.code, counts(shown.json)) == (0, [1, 0, 0])
    assert "paused" in shown.err
