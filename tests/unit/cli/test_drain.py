"""``inbox drain``: one DAG run for each message, through defects of messages and faults."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.api.common import trigger_dag
from airflow.api.common.delete_dag import delete_dag

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli
from tests.unit.cli.database import Database
from tests.unit.cli.test_inboxes import put

DRAIN = ("inbox", "drain", "orders", "--trigger-dag-id", "handle")


@pytest.fixture(autouse=True)
def handle(database: Database) -> Database:
    database.add_dag("handle")
    return database


def states(emulator: EmulatorServer) -> dict[str, str]:
    return {message["id"]: message["status"] for message in emulator.summary("orders")["messages"]}


def counts(result: Any) -> list[int]:
    return [result[name]["count"] for name in ("started", "existing", "rejected")]


@pytest.fixture
def at_start(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What happens before each further run is started: an error that is raised, or something called."""
    steps: list[Any] = []
    start = trigger_dag.trigger_dag

    def stepping(dag_id: str, **kwargs: Any) -> Any:
        step = steps.pop(0) if steps else None
        if isinstance(step, BaseException):
            raise step
        if step is not None:
            step()
        return start(dag_id, **kwargs)

    monkeypatch.setattr(trigger_dag, "trigger_dag", stepping)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    return steps


def test_no_more_messages_are_leased_than_there_is_room_for_and_one_task_may_handle(
    cli: Cli, emulator: EmulatorServer, handle: Database
) -> None:
    put(emulator, "a", "b", "c", "d")
    more = ("--max-unfinished-runs", "2", "-o", "json")

    result = cli(*DRAIN, *more)
    assert (result.code, counts(result.json)) == (0, [2, 0, 0])
    assert "max_unfinished_runs is reached" in result.err
    assert counts(cli(*DRAIN, *more).json) == [0, 0, 0]
    assert emulator.count("release") == 0
    handle.end_runs("handle")
    result = cli(*DRAIN, *more, "--max-messages", "1")
    assert counts(result.json) == [1, 0, 0]
    assert "the limit of messages or of 10 minutes is reached" in result.err


def test_people_see_a_table_of_the_outcomes_and_why_it_ended(cli: Cli, emulator: EmulatorServer) -> None:
    put(emulator, "a", "b")

    result = cli(*DRAIN)

    assert [[cell.strip() for cell in line.split("|")] for line in result.out.splitlines()[2:]] == [
        ["started", "2", "a"],
        ["existing", "0", ""],
        ["repeated", "0", ""],
        ["rejected", "0", ""],
        ["dead_lettered", "0", ""],
    ]
    assert (result.code, result.err) == (0, "Inbox orders: the inbox has no more messages.\n")


def test_a_rejected_message_is_named_and_holds_up_no_other(
    cli: Cli, emulator: EmulatorServer, at_start: list[Any]
) -> None:
    put(emulator, "good", "bad", "other")
    at_start += [None, ValueError("Invalid input for param x: 'a value' is too long")]

    result = cli(*DRAIN, "-o", "json")

    assert (result.code, counts(result.json)) == (1, [2, 0, 1])
    assert "bad: ValueError: param x" in result.err
    assert states(emulator) == {"good": "acked", "bad": "leased", "other": "acked"}


def test_where_the_dag_goes_away_what_was_not_started_is_given_back(
    cli: Cli, emulator: EmulatorServer, at_start: list[Any]
) -> None:
    put(emulator, "a", "b", "c")
    at_start += [None, lambda: delete_dag("handle")]

    result = cli(*DRAIN, "-o", "json")

    assert (result.code, counts(result.json)) == (3, [1, 0, 0])
    # Released, the rejected message would lose a delivery to the next attempt.
    assert states(emulator) == {"a": "acked", "b": "leased", "c": "available"}


@pytest.mark.parametrize(("reason", "code"), [("user", 0), ("authentication", 1)])
def test_an_inbox_that_is_paused_and_empty_is_a_fault_unless_a_user_has_paused_it(
    cli: Cli, emulator: EmulatorServer, reason: str, code: int
) -> None:
    emulator.store.inboxes.force(emulator.open_inbox("orders"), "paused", reason)

    result = cli(*DRAIN)

    assert result.code == code
    assert reason in result.err


def test_it_is_refused_where_payloads_have_to_be_written_to_an_object_storage(
    cli: Cli, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(emulator, 1)
    monkeypatch.setenv("AIRFLOW__WORKFLOW__PAYLOAD_OBJECTSTORAGE_PATH", "file:///payloads")
    refused = cli(*DRAIN)

    assert refused.code == 2
    assert "inbox drain does not write payloads" in refused.err
    assert emulator.summary("orders")["counters"]["leases"] == 0
