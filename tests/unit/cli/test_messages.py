"""Messages at the command line: list, lease, acknowledge, release (docs/service.md 3 and 4)."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli

NO_LEASE = "00000000-0000-4000-8000-000000000000"
MESSAGE = "7b0d2f7e-9d3c-4b53-8a55-3c1f0b8f1a11"


@pytest.fixture(autouse=True)
def orders(emulator: EmulatorServer) -> str:
    return emulator.open_inbox("orders")


def put(emulator: EmulatorServer, *ids: str, payload: Any = None, **attributes: Any) -> None:
    payloads = [{"n": each} if payload is None else payload for each in ids]
    emulator.put("orders", *payloads, ids=list(ids), attributes=attributes or None)


def leased(cli: Cli, *more: str) -> str:
    lease_id: str = cli("inbox", "lease", "orders", "-o", "json", *more).json["lease_id"]
    return lease_id


def states(cli: Cli) -> dict[str, str]:
    found = cli("inbox", "messages", "orders", "-o", "json").json
    return {message["id"]: message["status"] for message in found}


def test_messages_are_listed_without_payloads(cli: Cli, emulator: EmulatorServer) -> None:
    put(emulator, "a", "b", error_message="went wrong")

    shown = cli("inbox", "messages", "orders")

    assert shown.code == 0
    head, _, first, second = shown.out.splitlines()
    assert [name.strip() for name in head.split("|")] == ["id", "age", "status", "deliveries", "error"]
    assert first.startswith("a ")
    assert second.startswith("b ")
    assert "went wrong" in first


def test_messages_are_listed_by_status(cli: Cli, emulator: EmulatorServer) -> None:
    put(emulator, "a", "b")
    leased(cli, "--limit", "1")

    found = cli("inbox", "messages", "orders", "--status", "leased", "-o", "json").json
    assert [message["id"] for message in found] == ["a"]
    assert cli("inbox", "messages", "orders", "--status", "quarantined", "-o", "json").json == []


def test_nothing_to_lease_has_an_exit_code_of_its_own(cli: Cli) -> None:
    assert cli("inbox", "lease", "orders").out == ""

    shown = cli("inbox", "lease", "orders", "-o", "json")

    assert (shown.code, shown.json["results"]) == (4, [])
    assert "nothing to lease" in shown.err


def test_a_lease_that_ran_out_is_a_fault(cli: Cli, emulator: EmulatorServer, clock: ManualClock) -> None:
    put(emulator, "a")
    lease_id = leased(cli, "--lease-seconds", "60")
    clock.advance(61)

    shown = cli("inbox", "ack", "orders", lease_id)

    assert (shown.code, shown.out) == (1, "")
    assert f"(lease_expired): the lease {lease_id} has expired" in shown.err
    assert "airflow-workflow inbox lease orders" in shown.err


@pytest.mark.parametrize(
    ("command", "done", "more", "held"),
    [
        ("ack", "acknowledged", (), "holds no messages"),
        ("release", "released", (MESSAGE,), "holds none of these messages"),
    ],
)
def test_an_unknown_lease_is_not_found_and_said_to_be_so(
    cli: Cli, emulator: EmulatorServer, command: str, done: str, more: tuple[str, ...], held: str
) -> None:
    put(emulator, MESSAGE)
    leased(cli)

    shown = cli("inbox", command, "orders", NO_LEASE, *more, "-o", "json")

    assert (shown.code, shown.json["results"]) == (3, [])
    assert shown.err.startswith(f"Nothing was {done}: in inbox orders the lease {NO_LEASE} {held}.")
    assert "or the lease has ended" in shown.err
    assert cli("inbox", command, "orders", NO_LEASE, *more).out == ""
    assert states(cli) == {MESSAGE: "leased"}


def test_a_message_that_is_not_of_the_lease_is_said_to_be_left(cli: Cli, emulator: EmulatorServer) -> None:
    put(emulator, "a", "b")
    lease_id = leased(cli, "--limit", "1")

    shown = cli("inbox", "release", "orders", lease_id, "a", "b")

    assert shown.code == 1
    assert "1 of 2 messages were released" in shown.err


def test_what_was_acknowledged_is_gone(cli: Cli, emulator: EmulatorServer) -> None:
    put(emulator, "a", "b")
    cli("inbox", "ack", "orders", leased(cli, "--limit", "1"))

    assert states(cli) == {"b": "available"}
