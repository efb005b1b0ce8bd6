"""``token`` (docs/service.md 9.2)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

import pytest

from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.cli.conftest import Cli
from tests.unit.hooks.conftest import Variables, variables

__all__ = ["variables"]


def test_a_token_is_shown_masked_with_its_end_and_scope(
    cli: Cli, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    result = cli("token")

    (token,) = emulator.store.tokens.issued
    assert (result.code, result.err) == (0, "")
    assert "external" in result.out
    assert "36000" in result.out
    assert "***" in result.out
    for text in (result.out, caplog.text):
        assert token not in text
        assert token[:-4] not in text


def test_a_token_is_asked_for_with_a_scope(cli: Cli) -> None:
    assert cli("token", "--scope", "promotions:write", "-o", "json").json["scope"] == "promotions:write"


def test_with_the_grant_refresh_token_it_is_the_users(
    cli: Cli, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch, variables: Variables
) -> None:
    user = emulator.connection()
    user["extra"]["grant"] = "refresh_token"
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(user))
    now = datetime.now(UTC).timestamp()
    users = UserTokens("the-access-token-of-the-user-0123456789", "the-refresh-token", now + 500, now + 1000)
    VariableStore(WorkflowHook().settings).write(users)

    assert cli("token", "--show").out == f"{users.access_token}\n"
    token = cli("token", "-o", "json").json
    assert token["access_token"] == "***6789"
    assert 900 < token["expires_in"] <= 1000
    assert emulator.count("token") == 0


def test_of_a_token_a_script_reads_its_end_and_nothing_is_shown_of_a_short_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = datetime.fromisoformat(cli("token", "-o", "json").json["expires_at"]) - datetime.now(UTC)
    assert 35_900 < ends.total_seconds() <= 36_000

    monkeypatch.setattr(WorkflowHook, "access_token", lambda hook, scope: {"access_token": "abcdefgh"})
    token = cli("token", "-o", "json").json
    assert (token["access_token"], token["expires_in"]) == ("***", 3600)


def test_a_variable_that_is_no_connection_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MINE", '{"conn_type": "workflow",}')
    result = cli("token", "--conn-id", "mine")
    assert (result.code, "Airflow cannot read AIRFLOW_CONN_MINE" in result.err) == (5, True)
