"""``guess``, ``templates``, ``token``, ``emulator`` and ``put`` (docs/service.md 7, 9.2, 11.3, 13 and 14)."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import requests

from airflow_provider_workflow.cli.main import parser
from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.emulator.command_line import parse
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.cli.conftest import Cli
from tests.unit.fake_clock import FakeClock

TEXT = "When an order arrives in the shop, add a row to the spreadsheet"


def test_a_guess_shows_its_title_its_address_and_its_steps(cli: Cli) -> None:
    shown = cli("guess", TEXT)

    assert (shown.code, shown.err) == (0, "")
    assert "New Order | Shop " in shown.out
    assert "/editor?step=ShopAPI" in shown.out


def test_a_script_gets_the_guess_as_the_service_gave_it(cli: Cli) -> None:
    found = cli("guess", TEXT, "-o", "json").json

    assert found["prefilled_url"].endswith("/editor?step=ShopAPI%401.0.0&step=SpreadsheetAPI%401.0.0")
    assert [each["step"]["app"] for each in found["steps"]] == ["Shop", "Spreadsheet"]


def test_a_text_that_describes_no_workflow_is_refused_with_the_reason(cli: Cli) -> None:
    shown = cli("guess", "blah", "-o", "json")

    assert (shown.code, shown.out) == (1, "")
    assert "does not describe a workflow" in shown.err


def test_an_empty_text_is_wrong_usage(cli: Cli, emulator: EmulatorServer) -> None:
    assert cli("guess", " ").code == 2
    assert emulator.count("guess") == 0


def test_templates_are_listed(cli: Cli) -> None:
    shown = cli("templates", "--apps", "shop, spreadsheet", "--limit", "1")

    assert shown.code == 0
    assert "Spreadsheet" in shown.out
    (one,) = cli("templates", "--apps", "shop,spreadsheet", "--limit", "1", "-o", "json").json
    assert {step["api"] for step in one["steps"]} == {"ShopAPI@1.0.0", "SpreadsheetAPI@1.0.0"}
    assert len(cli("templates", "-o", "json").json) > 100


def test_templates_of_unknown_apps_are_none(cli: Cli) -> None:
    shown = cli("templates", "--apps", "nothing", "-o", "json")

    assert (shown.code, shown.json) == (0, [])
    assert cli("templates", "--apps", "nothing").out == "No data found\n"


@pytest.mark.parametrize("more", [("--limit", "0"), ("--apps", "a,,b")])
def test_arguments_out_of_range_are_wrong_usage(
    cli: Cli, emulator: EmulatorServer, more: tuple[str, str]
) -> None:
    assert cli("templates", *more).code == 2
    assert emulator.count("list_templates") == 0


def issued(emulator: EmulatorServer) -> list[str]:
    return list(emulator.store.tokens.issued)


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_token_is_shown_masked_with_its_end_and_scope(
    cli: Cli, emulator: EmulatorServer, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    shown = cli("token", "-o", form)

    (token,) = issued(emulator)
    assert (shown.code, shown.err) == (0, "")
    assert "external" in shown.out
    assert "36000" in shown.out
    assert "***" in shown.out
    for text in (shown.out, caplog.text):
        assert token not in text
        assert token[:-4] not in text


def test_a_script_reads_the_end_of_a_token(cli: Cli) -> None:
    told = cli("token", "-o", "json").json

    ends = datetime.fromisoformat(told["expires_at"]) - datetime.now(UTC)
    assert 35_900 < ends.total_seconds() <= 36_000


def test_show_prints_the_token_alone(cli: Cli, emulator: EmulatorServer) -> None:
    shown = cli("token", "--show", "--output", "json")

    assert shown.out == f"{issued(emulator)[0]}\n"
    assert shown.err == ""


def test_a_token_is_asked_for_with_a_scope(cli: Cli) -> None:
    assert cli("token", "--scope", "promotions:write", "-o", "json").json["scope"] == "promotions:write"


def test_nothing_is_shown_of_a_short_token(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"access_token": "abcdefgh"}
    monkeypatch.setattr(WorkflowHook, "access_token", lambda hook, scope: answer)

    told = cli("token", "-o", "json").json

    assert told["access_token"] == "***"
    assert told["expires_in"] == 3600


def test_a_secret_that_is_refused_is_told_without_it(
    cli: Cli, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = emulator.connection_json().replace(emulator.client_secret, "wrong-secret-1234")
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", wrong)

    shown = cli("token")

    assert (shown.code, shown.out) == (5, "")
    assert "wrong-secret-1234" not in shown.err


def test_with_the_grant_refresh_token_it_is_the_users(
    cli: Cli, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, str] = {}
    monkeypatch.setattr("airflow_provider_workflow.hooks.user_tokens.read_variable", kept.get)
    monkeypatch.setattr("airflow_provider_workflow.hooks.user_tokens.write_variable", kept.__setitem__)
    user = emulator.connection()
    user["extra"]["grant"] = "refresh_token"
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(user))
    now = datetime.now(UTC).timestamp()
    users = UserTokens("the-access-token-of-the-user-0123456789", "the-refresh-token", now + 500, now + 1000)
    VariableStore(WorkflowHook().settings, lambda _: None).write(users)

    assert cli("token", "--show").out == f"{users.access_token}\n"
    told = cli("token", "-o", "json").json
    assert told["access_token"] == "***6789"
    assert 900 < told["expires_in"] <= 1000
    assert emulator.count("token") == 0


def test_without_a_users_tokens_it_says_to_log_in(
    cli: Cli, emulator: EmulatorServer, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_workflow.hooks.user_tokens.read_variable", lambda name: None)
    user = emulator.connection()
    user["extra"]["grant"] = "refresh_token"
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(user))

    shown = cli("token")

    assert (shown.code, shown.out) == (5, "")
    assert "Log in" in shown.err


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
    given = ["--port", "1", "--inbox", "a", "--inbox", "b", "--state", "x.db"]
    ours = vars(parser().parse_args(["emulator", *given]))
    theirs = vars(parse(given))

    assert {name: value for name, value in ours.items() if name not in ("func", "subcommand")} == theirs
