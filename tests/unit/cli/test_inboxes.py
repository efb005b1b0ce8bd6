"""Inboxes at the command line (docs/service.md 2.1, 2.2, 4 and 11.2)."""

from __future__ import annotations

import io

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli


@pytest.fixture
def orders(emulator: EmulatorServer) -> str:
    return emulator.open_inbox("orders")


def test_a_list_shows_every_inbox(cli: Cli, emulator: EmulatorServer, orders: str) -> None:
    emulator.open_inbox("invoices")

    shown = cli("inbox", "list")

    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[0].split(" | ")[1].strip() == "name"
    assert all(word in shown.out for word in (orders, "invoices", "active"))
    assert [inbox["name"] for inbox in cli("inbox", "list", "--output", "json").json] == [
        "orders",
        "invoices",
    ]


def test_a_list_takes_a_status(cli: Cli, emulator: EmulatorServer, orders: str) -> None:
    emulator.store.inboxes.force(orders, "paused", "user")
    emulator.open_inbox("invoices")

    assert [each["id"] for each in cli("inbox", "list", "--status", "paused", "-o", "json").json] == [orders]


@pytest.mark.parametrize("by", ["name", "id"])
@pytest.mark.parametrize("command", ["show", "delete"])
def test_an_inbox_is_named_by_id_or_name(
    cli: Cli, emulator: EmulatorServer, orders: str, by: str, command: str
) -> None:
    if command == "resume":
        emulator.store.inboxes.force(orders, "paused", "user")
    more = ["--yes"] if command == "delete" else []

    shown = cli("inbox", command, orders if by == "id" else "orders", "-o", "json", *more)

    assert (shown.code, shown.json["id"]) == (0, orders)
    status = {"show": "active", "pause": "paused", "resume": "active", "delete": "deleting"}[command]
    assert shown.json["status"] == status


@pytest.mark.parametrize("command", ["show", "delete", "lease"])
@pytest.mark.parametrize("given", ["nobody", "0b6c2c8e-7f3a-4a52-9d0b-1f1e3c8a9b10"])
def test_an_inbox_that_is_not_there_is_not_found(cli: Cli, command: str, given: str) -> None:
    shown = cli("inbox", command, given)

    assert (shown.code, shown.out) == (3, "")
    assert shown.err.startswith("Error: ")
    assert len(shown.err.splitlines()) == 1


def test_an_inbox_is_shown_field_by_field(cli: Cli, orders: str) -> None:
    lines = dict(
        line.split(" | ") for line in cli("inbox", "show", "orders").out.splitlines()[2:] if " | " in line
    )

    fields = {name.strip(): value for name, value in lines.items()}
    assert (fields["id"], fields["status"]) == (orders, "active")


@pytest.mark.parametrize(("command", "status"), [("pause", "paused"), ("resume", "active")])
def test_pause_and_resume_may_be_repeated(cli: Cli, orders: str, command: str, status: str) -> None:
    for _ in range(2):
        shown = cli("inbox", command, "orders", "-o", "json")
        assert (shown.code, shown.json["status"]) == (0, status)


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_an_inbox_that_failed_to_initialize_is_neither_paused_nor_resumed(
    cli: Cli, emulator: EmulatorServer, orders: str, command: str
) -> None:
    emulator.store.inboxes.force(orders, "initialization_failure", "subscribe_failed")

    shown = cli("inbox", command, "orders")

    assert (shown.code, shown.out) == (1, "")
    assert "failed to initialize (subscribe_failed). Delete it" in shown.err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 1), ("", 1)])
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
