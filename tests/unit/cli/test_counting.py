"""``inbox list`` and ``inbox show`` count messages, in a bounded number of requests."""

from __future__ import annotations

import time

import pytest

from airflow_provider_workflow.cli import counting
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli


@pytest.fixture(autouse=True)
def orders(emulator: EmulatorServer) -> str:
    """An inbox of a service whose clock is this machine's."""
    emulator.store.clock.advance(time.time() - emulator.store.clock.now())
    return emulator.open_inbox("orders")


def fields(text: str) -> dict[str, str]:
    lines = [line.split(" | ") for line in text.splitlines()[2:] if " | " in line]
    return {line[0].strip(): line[1].strip() for line in lines}


def test_messages_are_counted_by_what_may_become_of_them(
    cli: Cli, emulator: EmulatorServer, orders: str
) -> None:
    emulator.store.configure(quarantine_after=1)
    emulator.put("orders", 1)
    emulator.store.leases.lease(orders, 300, 100)
    emulator.store.leases.expire(orders)
    (oldest,) = emulator.put("orders", 2)
    emulator.store.leases.lease(orders, 3600, 100)
    emulator.store.clock.advance(2)
    emulator.put("orders", 3, 4, 5)

    shown = cli("inbox", "show", "orders", "-o", "json").json["messages"]

    created = {each["id"]: each for each in cli("inbox", "messages", "orders", "-o", "json").json}
    assert shown == {
        "waiting": 3,
        "leased": 1,
        "quarantined": 1,
        "oldest_created_at": created[oldest]["created_at"],
        "complete": True,
    }
    told = fields(cli("inbox", "show", "orders").out)
    assert [told[name] for name in ("waiting", "leased", "quarantined")] == ["3", "1", "1"]


def test_an_old_message_is_told_by_its_age(cli: Cli, emulator: EmulatorServer) -> None:
    emulator.store.clock.advance(-7300)
    emulator.put("orders", 1)
    assert fields(cli("inbox", "show", "orders").out)["oldest"] == "2 h"


def test_a_list_has_the_numbers_of_each_inbox(cli: Cli, emulator: EmulatorServer) -> None:
    emulator.open_inbox("invoices")
    emulator.put("invoices", 1, 2)

    shown = cli("inbox", "list")

    assert (shown.code, shown.err) == (0, "")
    head, _, *rows = [[cell.strip() for cell in line.split("|")] for line in shown.out.splitlines()]
    waiting, quarantined = head.index("waiting"), head.index("quarantined")
    assert {row[1]: (row[waiting], row[quarantined]) for row in rows} == {
        "orders": ("0", "0"),
        "invoices": ("2", "0"),
    }
    assert [each["messages"]["waiting"] for each in cli("inbox", "list", "-o", "json").json] == [0, 2]


def test_what_is_counted_in_part_is_marked(cli: Cli, emulator: EmulatorServer) -> None:
    emulator.store.configure(page_size=2)
    emulator.put("orders", *range(11))

    assert fields(cli("inbox", "show", "orders").out)["waiting"] == "10+"
    assert emulator.count("list_messages") == counting.PAGES
    found = cli("inbox", "show", "orders", "-o", "json").json["messages"]
    assert (found["waiting"], found["complete"]) == (10, False)


def test_a_long_list_is_counted_in_part_and_says_so(
    cli: Cli, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MOST_INBOXES", 1)
    emulator.open_inbox("invoices")

    shown = cli("inbox", "list", "-o", "json")

    assert [each["messages"] is None for each in shown.json] == [False, True]
    assert shown.err.startswith("Messages of 1 inbox were not counted, only those of the first 1;")
    assert emulator.count("list_messages") == 1


@pytest.mark.parametrize("command", [("list",), ("show", "orders")])
def test_without_counts_no_messages_are_listed(
    cli: Cli, emulator: EmulatorServer, command: tuple[str, ...]
) -> None:
    shown = cli("inbox", *command, "--no-counts", "-o", "json")

    assert "messages" not in (shown.json[0] if command == ("list",) else shown.json)
    assert "waiting" not in cli("inbox", *command, "--no-counts").out
    assert emulator.count("list_messages") == 0


@pytest.mark.parametrize("status", ["deleting", "initialization_failure"])
def test_an_inbox_that_holds_no_messages_is_not_counted(
    cli: Cli, emulator: EmulatorServer, orders: str, status: str
) -> None:
    emulator.store.inboxes.force(orders, status)

    assert cli("inbox", "show", orders, "-o", "json").json["messages"] is None
    assert emulator.count("list_messages") == 0


def test_an_inbox_that_is_deleted_meanwhile_does_not_end_the_counting(
    cli: Cli, emulator: EmulatorServer, orders: str
) -> None:
    emulator.open_inbox("invoices")
    emulator.fault("status", operation="list_messages", status=404, path=orders)

    shown = cli("inbox", "list", "-o", "json")

    assert [each["messages"] is None for each in shown.json] == [True, False]
    assert shown.err == ""


def test_a_service_that_lists_no_messages_is_asked_once_and_the_inboxes_are_shown(
    cli: Cli, emulator: EmulatorServer
) -> None:
    emulator.open_inbox("invoices")
    emulator.fault("status", operation="list_messages", status=429, headers={"Retry-After": "60"}, times=None)

    shown = cli("inbox", "list", "-o", "json")

    assert (shown.code, [each["messages"] for each in shown.json]) == (0, [None, None])
    assert shown.err.startswith("Messages of 2 inboxes were not counted: ")
    assert emulator.count("list_messages") == 1


@pytest.mark.parametrize("command", [("inbox", "list"), ("inbox", "messages", "orders")])
def test_a_status_that_does_not_exist_is_wrong_usage_and_names_those_that_do(
    cli: Cli, emulator: EmulatorServer, command: tuple[str, ...]
) -> None:
    shown = cli(*command, "--status", "activ")

    assert (shown.code, shown.out) == (2, "")
    expected = ("active", "paused") if command[1] == "list" else ("available", "quarantined")
    assert all(word in shown.err for word in expected)
    assert not emulator.requests
    assert all(word in cli(*command, "--help").out for word in expected)
