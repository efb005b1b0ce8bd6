"""Inboxes and their messages at the command line (docs/service.md 2.1, 2.2, 3, 4 and 11.2)."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest

from airflow_provider_workflow.cli import inboxes
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli, Terminal
from tests.unit.cli.database import Database
from tests.unit.documents import arguments_of_commands
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
        result = cli("inbox", command, "orders", "-o", "json")
        assert (result.code, result.json["status"]) == (0, status)
        output = cli("inbox", command, "orders").out
        assert output.startswith(f"Inbox orders is {status}")
        assert ("new events are dropped" in output) is (status == "paused")


@pytest.mark.parametrize(
    ("stdin", "code"), [(Terminal("y\n"), 0), (Terminal("\n"), 1), (io.StringIO("y\n"), 2)]
)
def test_an_inbox_is_deleted_only_if_a_person_was_asked(
    cli: Cli, emulator: EmulatorServer, orders: str, monkeypatch: pytest.MonkeyPatch, stdin: Any, code: int
) -> None:
    monkeypatch.setattr("sys.stdin", stdin)

    result = cli("inbox", "delete", "orders", "-o", "json")

    assert result.code == code
    for text in ("'orders'", orders) if code < 2 else ("--yes",):
        assert text in result.err
    assert emulator.count("delete_inbox") == (1 if code == 0 else 0)


def fields(table: str) -> dict[str, str]:
    """A table with a row for each field."""
    cells = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    return {row[0]: row[1] for row in cells if len(row) == 2}


def test_messages_are_counted_by_their_status_with_the_age_of_the_oldest(
    cli: Cli, emulator: EmulatorServer, orders: str
) -> None:
    emulator.store.configure(quarantine_after=1)
    emulator.store.clock.advance(-20_000)
    emulator.put("orders", 1)
    emulator.store.messages.lease(orders, 300, 100)
    emulator.store.messages.expire(orders)
    emulator.store.clock.advance(20_000 - 7300)
    emulator.put("orders", 2)
    emulator.store.messages.lease(orders, 100_000, 100)
    emulator.store.clock.advance(7300)
    emulator.put("orders", 3, 4, 5)

    counts = cli("inbox", "show", "orders", "-o", "json").json["messages"]
    assert counts.pop("oldest_created_at")
    assert counts == {"available": 3, "leased": 1, "quarantined": 1, "complete": True}
    values = fields(cli("inbox", "show", "orders").out)
    names = ("available", "leased", "quarantined", "oldest")
    assert [values[name] for name in names] == ["3", "1", "1", "2 h"]


def test_a_list_has_the_numbers_of_each_inbox_and_takes_a_status(
    cli: Cli, emulator: EmulatorServer, orders: str
) -> None:
    invoices = emulator.open_inbox("invoices")
    emulator.put("invoices", 1, 2)
    emulator.store.inboxes.force(invoices, "paused", "user")

    head, _, *rows = [
        [cell.strip() for cell in line.split("|")] for line in cli("inbox", "list").out.splitlines()
    ]
    columns = ("status", "available", "quarantined")
    assert {row[1]: [row[head.index(name)] for name in columns] for row in rows} == {
        "orders": ["active", "0", "0"],
        "invoices": ["paused (user)", "2", "0"],
    }
    paused_inboxes = cli("inbox", "list", "--status", "paused", "-o", "json").json
    assert [(inbox["id"], inbox["messages"]["available"]) for inbox in paused_inboxes] == [(invoices, 2)]


def test_what_is_counted_in_part_is_marked(
    cli: Cli, emulator: EmulatorServer, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.store.configure(page_size=2)
    monkeypatch.setattr(inboxes, "PAGES", 2)
    monkeypatch.setattr("airflow_provider_workflow.client.inboxes.PAGE_SIZE", 2)
    emulator.put("orders", *range(5))
    assert fields(cli("inbox", "show", "orders").out)["available"] == "4+"
    counts = cli("inbox", "show", "orders", "-o", "json").json["messages"]
    assert (counts["available"], counts["complete"]) == (4, False)


@pytest.mark.parametrize("command", [("list",), ("show", "orders")])
@pytest.mark.parametrize("status", ["active", "deleting", "initialization_failure"])
def test_messages_are_not_listed_where_there_are_none_or_counts_are_not_asked_for(
    cli: Cli, emulator: EmulatorServer, orders: str, command: tuple[str, ...], status: str
) -> None:
    emulator.store.inboxes.force(orders, status)
    arguments = (command[0], orders) if len(command) > 1 else command
    options = ("--no-counts",) if status == "active" else ()
    rows = cli("inbox", *arguments, *options, "-o", "json").json
    assert (rows if len(command) > 1 else rows[0]).get("messages") is None
    assert ("available" in cli("inbox", *arguments, *options).out) is (status != "active")
    assert emulator.count("list_messages") == 0


def test_a_long_list_is_counted_in_part_and_says_so(
    cli: Cli, emulator: EmulatorServer, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inboxes, "MAX_COUNTED_INBOXES", 1)
    emulator.open_inbox("invoices")

    result = cli("inbox", "list", "-o", "json")

    assert [row["messages"] is None for row in result.json] == [False, True]
    assert result.err.startswith("Messages of 1 inbox were not counted: those of at most 1 are;")
    assert orders in cli("inbox", "list", "--no-counts").out
    assert emulator.count("list_messages") == 1


def test_an_inbox_that_is_deleted_meanwhile_does_not_end_the_counting(
    cli: Cli, emulator: EmulatorServer, orders: str
) -> None:
    emulator.open_inbox("invoices")
    emulator.fault("status", operation="list_messages", status=404, path=orders)

    result = cli("inbox", "list", "-o", "json")

    assert [row["messages"] is None for row in result.json] == [True, False]
    assert result.err == ""


def test_a_service_that_lists_no_messages_is_asked_once_and_the_inboxes_are_shown(
    cli: Cli, emulator: EmulatorServer, orders: str
) -> None:
    emulator.open_inbox("invoices")
    emulator.fault("status", operation="list_messages", status=429, headers={"Retry-After": "60"}, times=None)

    result = cli("inbox", "list", "-o", "json")

    assert (result.code, [row["messages"] for row in result.json]) == (0, [None, None])
    assert result.err.startswith("Messages of 2 inboxes were not counted: ")
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
    arguments = {"ensure": ENSURE, "list": ("inbox", "list")}.get(command, ("inbox", command, "tickets"))

    table, script = cli(*arguments), cli(*arguments, "-o", "json")

    assert (table.code, script.code) == (0, 0)
    assert "of-this" not in table.out + table.err + script.out + script.err
    assert "https://example.com:8443/***" in script.out
    assert ("https://example.com:8443/***" in table.out) is (command != "list")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--inputs", "[1]"),
        ("--inputs", "{"),
        ("--inputs", '{"n": NaN}'),
        ("--timeout", "0"),
        ("--timeout", "nan"),
    ],
)
def test_inputs_have_to_be_a_json_object_and_a_timeout_above_0(
    cli: Cli, emulator: EmulatorServer, option: str, value: str
) -> None:
    result = cli(*ENSURE, "--wait", option, value)

    assert (result.code, emulator.count("ensure_inbox")) == (2, 0)
    assert option in result.err


def test_wait_ends_with_its_timeout(cli: Cli, emulator: EmulatorServer, fake_clock: FakeClock) -> None:
    emulator.store.configure(initializing_seconds=10**6)

    result = cli(*ENSURE, "--wait", "--timeout", "5", "-o", "json")

    assert (result.code, result.out, sum(fake_clock.slept)) == (1, "", 5)
    assert "not active within 5 s" in result.err


NO_LEASE = "00000000-0000-4000-8000-000000000000"
MESSAGE = "7b0d2f7e-9d3c-4b53-8a55-3c1f0b8f1a11"


def put(emulator: EmulatorServer, *ids: str, **attributes: Any) -> None:
    emulator.put("orders", *({"n": id_} for id_ in ids), ids=list(ids), attributes=attributes or None)


def lease(cli: Cli, *more: str) -> str:
    lease_id: str = cli("inbox", "lease", "orders", "-o", "json", *more).json["lease_id"]
    return lease_id


def states(cli: Cli) -> dict[str, str]:
    messages = cli("inbox", "messages", "orders", "-o", "json").json
    return {message["id"]: message["status"] for message in messages}


def test_messages_are_listed_without_payloads(cli: Cli, emulator: EmulatorServer) -> None:
    put(emulator, "a", "b", error_message="went wrong")

    result = cli("inbox", "messages", "orders")

    assert result.code == 0
    head, _, first, second = result.out.splitlines()
    assert [name.strip() for name in head.split("|")] == ["id", "age", "status", "deliveries", "error"]
    assert first.startswith("a ")
    assert second.startswith("b ")
    assert "went wrong" in first


def test_messages_are_listed_by_status_until_they_are_acknowledged(
    cli: Cli, emulator: EmulatorServer
) -> None:
    put(emulator, "a", "b")
    lease_id = lease(cli, "--limit", "1")

    messages = cli("inbox", "messages", "orders", "--status", "leased", "-o", "json").json
    assert [message["id"] for message in messages] == ["a"]
    assert cli("inbox", "messages", "orders", "--status", "quarantined", "-o", "json").json == []
    cli("inbox", "ack", "orders", lease_id)
    assert states(cli) == {"b": "available"}


@pytest.mark.parametrize("command", ["show", "delete", "lease"])
@pytest.mark.parametrize("name", ["nobody", "0b6c2c8e-7f3a-4a52-9d0b-1f1e3c8a9b10"])
def test_an_inbox_that_does_not_exist_is_one_sentence(cli: Cli, command: str, name: str) -> None:
    result = cli("inbox", command, name)
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith("Error: ")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("command", [("inbox", "list"), ("inbox", "messages", "orders")])
def test_a_status_that_does_not_exist_is_wrong_usage_and_those_that_do_are_named(
    cli: Cli, emulator: EmulatorServer, command: tuple[str, ...]
) -> None:
    result = cli(*command, "--status", "activ")
    assert (result.code, result.out, emulator.requests) == (2, "", [])
    names = ("active", "paused") if command[1] == "list" else ("available", "quarantined")
    for text in (result.err, cli(*command, "--help").out):
        assert all(name in text for name in names)


@pytest.mark.usefixtures("orders")
def test_nothing_to_lease_has_an_exit_code_of_its_own(cli: Cli) -> None:
    assert cli("inbox", "lease", "orders").out == ""
    assert "--limit must be a whole number from 1" in cli("inbox", "lease", "orders", "--limit", "0").err

    result = cli("inbox", "lease", "orders", "-o", "json")

    assert (result.code, result.json["results"]) == (4, [])
    assert "nothing to lease" in result.err
    cli("inbox", "pause", "orders")
    assert cli("inbox", "lease", "orders").code == 4


def test_a_lease_is_shown_with_its_payloads_and_whole_to_a_script(cli: Cli, emulator: EmulatorServer) -> None:
    payload = {"text": "Grüße", "n": 1.5, "deep": [None, True]}
    emulator.put("orders", payload, payload)
    result = cli("inbox", "lease", "orders", "--limit", "1")
    assert (result.code, result.err) == (0, "")
    assert "lease_id" in result.out
    assert '"text": "Grüße"' in result.out

    second = cli("inbox", "lease", "orders", "--limit", "5", "--lease-seconds", "60", "-o", "json")
    assert (second.json["results"][0]["payload"], second.out.isascii()) == (payload, True)
    assert set(second.json) == {"lease_id", "leased_until", "results", "inbox_attributes"}
    bodies = [json.loads(request.body) for request in emulator.requests if request.operation == "lease"]
    assert [(body["lease_limit"], body["lease_seconds"]) for body in bodies] == [(1, 300), (5, 60)]


@pytest.mark.parametrize(("command", "status"), [("ack", "acked"), ("release", "available")])
def test_a_lease_is_ended_as_a_whole_or_message_by_message(
    cli: Cli, emulator: EmulatorServer, command: str, status: str
) -> None:
    emulator.put("orders", 1, 2, 3, 4, ids=["a", "b", "c", "d"])
    lease_id = cli("inbox", "lease", "orders", "-o", "json").json["lease_id"]
    two = cli("inbox", command, "orders", lease_id, "b", "c", "-o", "json")
    assert (two.code, [message["id"] for message in two.json["results"]]) == (0, ["b", "c"])
    assert emulator.summary("orders")["counts"]["leased"] == 2
    assert cli("inbox", command, "orders", lease_id).code == 0
    assert {message["status"] for message in emulator.summary("orders")["messages"]} == {status}


def test_an_inbox_that_is_paused_is_ensured_and_said_to_be_paused(cli: Cli, emulator: EmulatorServer) -> None:
    inbox = cli(*ENSURE, "-o", "json").json["id"]
    emulator.store.inboxes.force(inbox, "paused", "authentication")
    result = cli(*ENSURE, "--wait", "-o", "json")
    assert (result.code, result.json["status"]) == (0, "paused")
    assert "is paused" in result.err


def test_a_lease_that_ran_out_is_a_fault(cli: Cli, emulator: EmulatorServer, clock: ManualClock) -> None:
    put(emulator, "a")
    lease_id = lease(cli, "--lease-seconds", "60")
    clock.advance(61)

    result = cli("inbox", "ack", "orders", lease_id)

    assert (result.code, result.out) == (1, "")
    assert f"(lease_expired): the lease {lease_id} has expired" in result.err
    assert "airflow-workflow inbox lease orders" in result.err


@pytest.mark.parametrize(
    ("command", "verb", "more", "text"),
    [
        ("ack", "acknowledged", (), "holds no messages"),
        ("release", "released", (MESSAGE,), "holds none of these messages"),
    ],
)
def test_an_unknown_lease_is_not_found_and_said_to_be_so(
    cli: Cli, emulator: EmulatorServer, command: str, verb: str, more: tuple[str, ...], text: str
) -> None:
    put(emulator, MESSAGE)
    lease(cli)

    result = cli("inbox", command, "orders", NO_LEASE, *more, "-o", "json")

    assert (result.code, result.json["results"]) == (3, [])
    assert result.err.startswith(f"Nothing was {verb}: in inbox orders the lease {NO_LEASE} {text}.")
    assert "or the lease has ended" in result.err
    assert cli("inbox", command, "orders", NO_LEASE, *more).out == ""
    assert states(cli) == {MESSAGE: "leased"}


def test_a_message_that_is_not_of_the_lease_is_said_to_be_left(cli: Cli, emulator: EmulatorServer) -> None:
    put(emulator, "a", "b")
    lease_id = lease(cli, "--limit", "1")

    result = cli("inbox", "release", "orders", lease_id, "a", "b")

    assert result.code == 1
    assert "1 of 2 messages were released" in result.err


COMMANDS = "docs/command-line.md"


def test_the_documented_commands_put_list_and_drain_messages(
    cli: Cli, emulator: EmulatorServer, database: Database
) -> None:
    database.add_dag("handle_order")
    put_command, messages, drain, token = arguments_of_commands(COMMANDS, "airflow-workflow put")

    assert cli(*put_command).code == 0
    assert cli(*messages).out.count("available") == 2
    assert cli(*drain).code == 0
    payloads = [conf["message"]["payload"] for conf in database.runs("handle_order").values()]
    assert sorted(payload["number"] for payload in payloads) == [1, 2]
    assert {message["status"] for message in emulator.summary("orders")["messages"]} == {"acked"}
    assert cli(*token).json["access_token"].startswith("***")


@pytest.mark.usefixtures("fake_clock")
def test_the_documented_commands_make_use_and_delete_an_inbox(cli: Cli, emulator: EmulatorServer) -> None:
    for command in arguments_of_commands(COMMANDS, "airflow-workflow inbox ensure"):
        result = cli(*command)
        assert result.code == 0, result.err
        assert result.out
    assert emulator.count("lease") == 1
    assert cli("inbox", "list", "--output", "json").json == []
