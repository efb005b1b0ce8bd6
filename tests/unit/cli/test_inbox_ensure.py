"""``inbox ensure`` (docs/service.md 2.2, 4 and 11.2)."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli
from tests.unit.fake_clock import FakeClock

ENSURE = ("inbox", "ensure", "tickets", "--app-key", "tasks", "--action-key", "new_ticket")


def test_ensure_creates_an_inbox_once(cli: Cli) -> None:
    more = ("--inputs", '{"project": "support"}', "--connection-id", "12", "-o", "json")
    first = cli(*ENSURE, *more).json

    assert first["subscription"]["inputs"] == {"project": "support"}
    assert first["subscription"]["connection_id"] == 12
    assert cli(*ENSURE, *more).json["id"] == first["id"]


def test_ensure_sets_where_messages_are_announced(cli: Cli, emulator: EmulatorServer) -> None:
    cli(*ENSURE)

    shown = cli(*ENSURE, "--notification-url", "https://example.com/told", "-o", "json")

    assert emulator.store.inboxes.get(shown.json["id"]).notification_url == "https://example.com/told"


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("command", ["ensure", "show", "list"])
def test_what_is_secret_in_the_address_of_a_receiver_is_not_shown(cli: Cli, command: str, form: str) -> None:
    url = "https://me:pass-of-this@example.com:8443/told/path-of-this?key=query-of-this"
    cli(*ENSURE, "--notification-url", url)
    given = {"ensure": ENSURE, "list": ("inbox", "list")}.get(command, ("inbox", command, "tickets"))

    shown = cli(*given, "-o", form)

    assert shown.code == 0
    assert "of-this" not in shown.out + shown.err
    assert ("https://example.com:8443/***" in shown.out) is (command != "list" or form in ("json", "yaml"))


def test_a_name_with_another_subscription_is_refused_with_both_of_them(cli: Cli) -> None:
    cli(*ENSURE)

    shown = cli(*ENSURE[:-1], "other")

    assert (shown.code, shown.out) == (1, "")
    assert '"action_key": "new_ticket"' in shown.err
    assert '"action_key": "other"' in shown.err


@pytest.mark.parametrize("inputs", ["[1]", "{"])
def test_inputs_have_to_be_a_json_object(cli: Cli, emulator: EmulatorServer, inputs: str) -> None:
    shown = cli(*ENSURE, "--inputs", inputs)

    assert (shown.code, emulator.count("ensure_inbox")) == (2, 0)
    assert "--inputs" in shown.err


@pytest.mark.parametrize("more", [("--timeout", "0"), ("--timeout", "nan")])
def test_a_timeout_has_to_be_above_0(cli: Cli, emulator: EmulatorServer, more: tuple[str, str]) -> None:
    assert cli(*ENSURE, "--wait", *more).code == 2
    assert emulator.count("ensure_inbox") == 0


def test_without_wait_an_inbox_that_is_initializing_is_shown_as_it_is(
    cli: Cli, emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    emulator.store.configure(initializing_seconds=30)

    assert cli(*ENSURE, "-o", "json").json["status"] == "initializing"
    assert fake_clock.slept == []


def test_wait_ends_when_the_inbox_is_active(
    cli: Cli, emulator: EmulatorServer, clock: ManualClock, fake_clock: FakeClock
) -> None:
    emulator.store.configure(initializing_seconds=30)
    fake_clock.moved_along.append(clock)

    assert cli(*ENSURE, "--wait", "-o", "json").json["status"] == "active"
    assert fake_clock.slept == [1, 2, 4, 8, 10, 10]


def test_wait_ends_with_its_timeout(cli: Cli, emulator: EmulatorServer, fake_clock: FakeClock) -> None:
    emulator.store.configure(initializing_seconds=10**6)

    shown = cli(*ENSURE, "--wait", "--timeout", "5", "-o", "json")

    assert (shown.code, shown.json["status"], sum(fake_clock.slept)) == (1, "initializing", 5)
    assert "not active within 5 s" in shown.err


@pytest.mark.parametrize("more", [(), ("--wait",)])
def test_an_inbox_that_failed_to_initialize_is_a_fault(
    cli: Cli, emulator: EmulatorServer, fake_clock: FakeClock, more: tuple[str, ...]
) -> None:
    emulator.store.inboxes.fail_next("tickets", 1)
    cli(*ENSURE)

    shown = cli(*ENSURE, *more, "-o", "json")

    assert (shown.code, shown.json["status"]) == (1, "initialization_failure")
    assert "Delete it and create it again" in shown.err


def test_a_paused_inbox_is_said_to_be_paused(cli: Cli, emulator: EmulatorServer) -> None:
    inbox = cli(*ENSURE, "-o", "json").json["id"]
    emulator.store.inboxes.force(inbox, "paused", "authentication")

    shown = cli(*ENSURE, "--wait", "-o", "json")

    assert (shown.code, shown.json["status"]) == (0, "paused")
    assert "is paused" in shown.err
