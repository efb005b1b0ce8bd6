"""``token``: masked unless it is asked for alone (docs/service.md 9.2 and 14)."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime

import pytest

from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.cli.conftest import Cli
from tests.unit.fake_clock import FakeClock


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
    assert re.search(r"\*\*\*", shown.out)
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
