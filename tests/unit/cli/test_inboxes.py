"""Inboxes at the command line (docs/service.md 2.1, 2.2, 4 and 11.2), with the numbers of their messages."""

from __future__ import annotations

import io
import time

import pytest

from airflow_provider_workflow.cli import inboxes
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli, Terminal
from tests.unit.fake_clock import FakeClock

ENSURE = ("inbox", "ensure", "tickets", "--app-key", "tasks", "--action-key", "new_ticket")


@pytest.fixture
def orders(emulator: EmulatorServer) -> str:
    """An inbox of a service whose clock is this machine's."""
    emulator.store.clock.advance(time.time() - emulator.store.clock.now())
    return emulator.open_inbox("orders")


@pytest.mark.parametrize(("command", "status"), [("pause", "paused"), ("resume", "active")])
def test_pause_and_resume_may_be_repeated(cli: Cli, orders: str, command: str, status: str) -> None:
    for _ in range(2):
        shown = cli("inbox", command, "orders", "-o", "json")
        assert (shown.code, shown.json["status"]) == (0, status)
        said = cli("inbox", command, "orders").out
        assert said.startswith(f"Inbox orders is {status}")
        assert ("new events are dropped" in said) is (status == "paused")


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 1)])
def test_a_person_is_asked_before_an_inbox_is_deleted(
    cli: Cli, emulator: EmulatorServer, orders: str, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))

    shown = cli("inbox", "delete", "orders", "-o", "json")

    assert shown.code == code
    assert "'orders'" in shown.err
    assert orders in shown.err
    assert emulator.count("delete_inbox") == (1 if code == 0 else 0)


def test_where_nobody_can_be_asked_nothing_is_deleted(
    cli: Cli, emulator: EmulatorServer, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))

    shown = cli("inbox", "delete", "orders")

    assert (shown.code, emulator.count("delete_inbox")) == (2, 0)
    assert "--yes" in shown.err


def test_a_long_list_is_counted_in_part_and_says_so(
    cli: Cli, emulator: EmulatorServer, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inboxes, "MOST_INBOXES", 1)
    emulator.open_inbox("invoices")

    shown = cli("inbox", "list", "-o", "json")

    assert [each["messages"] is None for each in shown.json] == [False, True]
    assert shown.err.startswith("Messages of 1 inboxes were not counted: at most 1 are;")
    assert emulator.count("list_messages") == 1


def test_an_inbox_that_is_deleted_meanwhile_does_not_end_the_counting(
    cli: Cli, emulator: EmulatorServer, orders: str
) -> None:
    emulator.open_inbox("invoices")
    emulator.fault("status", operation="list_messages", status=404, path=orders)

    shown = cli("inbox", "list", "-o", "json")

    assert [each["messages"] is None for each in shown.json] == [True, False]
    assert shown.err == ""


def test_a_service_that_lists_no_messages_is_asked_once_and_the_inboxes_are_shown(
    cli: Cli, emulator: EmulatorServer, orders: str
) -> None:
    emulator.open_inbox("invoices")
    emulator.fault("status", operation="list_messages", status=429, headers={"Retry-After": "60"}, times=None)

    shown = cli("inbox", "list", "-o", "json")

    assert (shown.code, [each["messages"] for each in shown.json]) == (0, [None, None])
    assert shown.err.startswith("Messages of 2 inboxes were not counted: ")
    assert emulator.count("list_messages") == 1


def test_ensure_creates_an_inbox_once(cli: Cli) -> None:
    more = ("--inputs", '{"project": "support"}', "--connection-id", "12", "-o", "json")
    first = cli(*ENSURE, *more).json

    assert first["subscription"]["inputs"] == {"project": "support"}
    assert first["subscription"]["connection_id"] == 12
    assert cli(*ENSURE, *more).json["id"] == first["id"]


@pytest.mark.parametrize("command", ["ensure", "show", "list"])
def test_what_is_secret_in_the_address_of_a_receiver_is_not_shown(cli: Cli, command: str) -> None:
    url = "https://me:pass-of-this@example.com:8443/told/path-of-this?key=query-of-this"
    cli(*ENSURE, "--notification-url", url)
    given = {"ensure": ENSURE, "list": ("inbox", "list")}.get(command, ("inbox", command, "tickets"))

    table, script = cli(*given), cli(*given, "-o", "json")

    assert (table.code, script.code) == (0, 0)
    assert "of-this" not in table.out + table.err + script.out + script.err
    assert "https://example.com:8443/***" in script.out
    assert ("https://example.com:8443/***" in table.out) is (command != "list")


@pytest.mark.parametrize(
    ("option", "value"), [("--inputs", "[1]"), ("--inputs", "{"), ("--timeout", "0"), ("--timeout", "nan")]
)
def test_inputs_have_to_be_a_json_object_and_a_timeout_above_0(
    cli: Cli, emulator: EmulatorServer, option: str, value: str
) -> None:
    shown = cli(*ENSURE, "--wait", option, value)

    assert (shown.code, emulator.count("ensure_inbox")) == (2, 0)
    assert option in shown.err


def test_wait_ends_with_its_timeout(cli: Cli, emulator: EmulatorServer, fake_clock: FakeClock) -> None:
    emulator.store.configure(initializing_seconds=10**6)

    shown = cli(*ENSURE, "--wait", "--timeout", "5", "-o", "json")

    assert (shown.code, shown.out, sum(fake_clock.slept)) == (1, "", 5)
    assert "not active within 5 s" in shown.err
