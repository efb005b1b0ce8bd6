"""``emulator`` and ``put``: a local service, and messages for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import requests

from airflow_provider_workflow.cli.definition import Command
from airflow_provider_workflow.emulator.command_line import parse
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli


@pytest.mark.parametrize("by", ["name", "id"])
def test_each_payload_is_a_message(cli: Cli, emulator: EmulatorServer, by: str) -> None:
    inbox = emulator.open_inbox("orders")

    shown = cli("put", inbox if by == "id" else "orders", '{"n": 1}', '"text"', "-o", "json")

    assert shown.code == 0
    messages = emulator.summary("orders")["messages"]
    assert [each["id"] for each in messages] == shown.json["ids"]
    assert cli("put", "orders", "[]").out.splitlines()[0] == "id"
    lease = cli("inbox", "lease", "orders", "-o", "json").json
    assert [each["payload"] for each in lease["results"]] == [{"n": 1}, "text", []]


def test_an_inbox_is_created_only_where_that_was_asked_for(cli: Cli, emulator: EmulatorServer) -> None:
    refused = cli("put", "fresh", "1")
    assert (refused.code, refused.out) == (3, "")
    assert "'fresh'" in refused.err

    assert cli("put", "fresh", "1", "--create").code == 0
    assert len(emulator.summary("fresh")["messages"]) == 1


def test_what_is_no_json_is_wrong_usage_and_puts_nothing(cli: Cli, emulator: EmulatorServer) -> None:
    emulator.open_inbox("orders")

    shown = cli("put", "orders", '{"n": 1}', "{n: 2}")

    assert shown.code == 2
    assert "'{n: 2}' is not JSON" in shown.err
    assert emulator.summary("orders")["messages"] == []


def test_what_a_paused_inbox_drops_is_a_fault(cli: Cli, emulator: EmulatorServer) -> None:
    emulator.store.inboxes.force(emulator.open_inbox("orders"), "paused", "user")

    shown = cli("put", "orders", "1", "2", "-o", "json")

    assert (shown.code, shown.json["dropped"]) == (1, 2)
    assert "the inbox is paused" in shown.err


def test_an_address_needs_no_connection(
    cli: Cli, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_WORKFLOW_DEFAULT")
    emulator.open_inbox("orders")

    assert cli("put", "orders", "1", "--url", f"{emulator.base_url}/").code == 0
    assert cli("put", "orders", "1").code == 5


def test_where_no_emulator_is_it_says_so(cli: Cli, emulator: EmulatorServer) -> None:
    nobody = cli("put", "orders", "1", "--url", "http://127.0.0.1:1")
    assert (nobody.code, nobody.out) == (1, "")
    assert "no emulator answers at http://127.0.0.1:1/" in nobody.err
    assert cli("put", "orders", "1", "--url", "nonsense").code == 1

    other = cli("put", "orders", "1", "--url", f"{emulator.base_url}/v2")
    assert other.code in (1, 3)
    assert "/v2/_emulator/messages" in other.err


@pytest.fixture
def started() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "airflow_provider_workflow.cli.main", "emulator", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--inbox", "orders"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "AIRFLOW_HOME": "/nowhere"},
    )
    yield process
    process.kill()
    process.communicate(timeout=10)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped(started: subprocess.Popen[str], number: signal.Signals) -> None:
    assert started.stdout is not None
    address = started.stdout.readline().rpartition(" ")[2].strip()
    assert requests.get(f"{address}/_emulator/inboxes/orders", timeout=5).ok

    started.send_signal(number)

    assert started.wait(10) == 0
    assert "export AIRFLOW_CONN_WORKFLOW_DEFAULT=" in started.stdout.read()


def test_it_takes_the_options_of_the_module() -> None:
    from airflow_provider_workflow.cli.definition import COMMANDS
    from airflow_provider_workflow.cli.main import parser

    (command,) = (each for each in COMMANDS if isinstance(each, Command) and each.name == "emulator")
    flags = {flag for option in command.options for flag in option.flags}
    given = ["--port", "1", "--inbox", "a", "--inbox", "b", "--state", "x.db", "--quarantine-after", "2"]
    ours = vars(parser().parse_args(["emulator", *given]))
    theirs = vars(parse(given))

    assert {name: ours[name] for name in theirs} == theirs
    assert {f"--{name.replace('_', '-')}" for name in theirs} == flags
    assert json.dumps(sorted(set(ours) - set(theirs))) == '["function", "subcommand"]'
