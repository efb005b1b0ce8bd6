"""User tokens in an Airflow Variable: encrypted, found again, and said so where they cannot be read."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.execution_time import task_runner
from cryptography.fernet import Fernet

from airflow_provider_workflow.client.call import UserTokens
from airflow_provider_workflow.client.errors import LoginRequiredError, TokenStoreError
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.hooks import user_tokens
from airflow_provider_workflow.hooks.user_tokens import VariableStore, variable_name
from tests.traces import told
from tests.unit.hooks.variables import Variables, variables

__all__ = ["variables"]


NAME = "workflow_token__workflow_default"
SETTINGS = Settings(
    "https://a",
    "an-id",
    "client-secret-value",
    "https://a/token",
    grant="refresh_token",
    connection_id="workflow_default",
)
TOKENS = UserTokens("access-token-value", "refresh-token-value", 1000.0, 2000.0)
SECRETS = ("client-secret-value", "access-token-value", "refresh-token-value")


def store_of(settings: Settings = SETTINGS) -> VariableStore:
    return VariableStore(settings, lambda _: None)


def test_what_is_stored_is_found_again(variables: Variables) -> None:
    assert store_of().read() is None
    store_of().write(TOKENS)
    assert store_of().read() == TOKENS
    assert list(variables.values) == [NAME]


@pytest.mark.specification("14.3 storage")
def test_neither_tokens_nor_secret_can_be_read_in_the_variable(variables: Variables) -> None:
    store_of().write(TOKENS)
    text = variables.values[NAME]
    shown = text + base64.urlsafe_b64decode(text).decode("latin-1")
    assert [each for each in SECRETS if each in shown] == []
    assert all(
        each not in (message.description or "") for message in variables.asked[1:2] for each in SECRETS
    )


def test_the_same_tokens_never_look_the_same(variables: Variables) -> None:
    seen = set()
    for _ in range(3):
        store_of().write(TOKENS)
        seen.add(variables.values[NAME])
    assert len(seen) == 3


@pytest.mark.parametrize(
    "change", [{"client_secret": "regenerated"}, {"client_id": "another"}, {"connection_id": "other"}]
)
def test_tokens_of_another_secret_client_or_connection_cannot_be_read(
    change: dict[str, Any], variables: Variables
) -> None:
    store_of().write(TOKENS)
    other = replace(SETTINGS, **change)
    variables.values[variable_name(other.connection_id)] = variables.values[NAME]
    with pytest.raises(LoginRequiredError) as raised:
        store_of(other).read()
    text = str(raised.value)
    assert "the client secret has changed since they were stored" in text
    assert "Log in again" in text
    assert told(raised.value, SECRETS) == []


def encrypted(value: bytes) -> str:
    return store_of()._cipher().encrypt(value).decode()


@pytest.mark.parametrize(
    "value",
    [
        "",
        "by hand",
        "gAAAA",
        "é",
        json.dumps({"access_token": "a"}),
        Fernet(Fernet.generate_key()).encrypt(b"{}").decode(),
        encrypted(b"no JSON refresh-token-value"),
        encrypted(b"[]"),
        encrypted(b'{"access_token": "refresh-token-value"}'),
        encrypted(b"\xff"),
    ],
    ids=[
        *("nothing", "words", "half of its beginning", "no ASCII", "not encrypted", "another key"),
        *("encrypted words", "a list", "one token", "no text"),
    ],
)
def test_a_variable_that_was_changed_is_named(value: str, variables: Variables) -> None:
    variables.values[NAME] = value
    with pytest.raises(LoginRequiredError, match=NAME) as raised:
        store_of().read()
    assert told(raised.value, ["refresh-token-value"]) == []


def test_a_cut_variable_is_named(variables: Variables) -> None:
    store_of().write(TOKENS)
    variables.values[NAME] = variables.values[NAME][:-7]
    with pytest.raises(LoginRequiredError, match=NAME):
        store_of().read()


def test_a_store_that_is_away_is_no_reason_to_log_in(variables: Variables) -> None:
    variables.fault = RuntimeError("API server error")
    with pytest.raises(TokenStoreError, match="cannot be written: RuntimeError") as raised:
        store_of().write(TOKENS)
    assert told(raised.value, SECRETS) == []


def test_a_store_that_refuses_to_be_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise PermissionError("denied")

    monkeypatch.setattr(user_tokens, "read_variable", refuse)
    with pytest.raises(TokenStoreError, match="cannot be read: PermissionError"):
        store_of().read()


def test_every_token_is_masked(variables: Variables) -> None:
    masked: list[str] = []
    VariableStore(SETTINGS, masked.append).write(TOKENS)
    assert masked == ["access-token-value", "refresh-token-value"]
    VariableStore(SETTINGS, masked.append).read()
    in_between, *again = masked[2:]
    assert again == masked[:2]
    assert in_between.startswith("gAAAA"), "the value of the Variable itself"


def test_outside_of_tasks_the_variable_is_that_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, str] = {}
    monkeypatch.delattr(task_runner, "SUPERVISOR_COMMS", raising=False)
    monkeypatch.setattr(
        "airflow.models.variable.Variable.get", lambda key, default_var: kept.get(key, default_var)
    )
    monkeypatch.setattr(
        "airflow.models.variable.Variable.set", lambda key, value, description: kept.update({key: value})
    )
    assert store_of().read() is None
    store_of().write(TOKENS)
    assert store_of().read() == TOKENS
    assert list(kept) == [NAME]


@pytest.mark.parametrize(
    ("connection_id", "plain"),
    [
        ("workflow_default", True),
        ("a.b-c", True),
        ("a/b", False),
        ("_x", False),
        ("é", False),
        ("x" * 201, False),
    ],
)
def test_the_variable_s_name_says_token_and_fits_any_address(connection_id: str, plain: bool) -> None:
    name = variable_name(connection_id)
    assert name.startswith("workflow_token__")
    assert (name == f"workflow_token__{connection_id}") is plain
    assert len(name) <= 250
    assert name.isascii()
    assert "/" not in name
