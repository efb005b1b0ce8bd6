"""``inbox drain`` through faults: what was started is acknowledged, and the rest given back."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.dispatch.payloads import payload_of
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli
from tests.unit.cli.database import Database
from tests.unit.cli.draining import DRAIN, at_start, counts, handle, orders, put, states

__all__ = ["at_start", "handle", "orders"]


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

    assert counts(first.json) == [1, 1, 0]
    assert len(handle.runs("handle")) == 1
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
