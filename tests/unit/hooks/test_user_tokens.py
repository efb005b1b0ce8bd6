"""User tokens in an Airflow Variable: found again, and an error that names it where they cannot be read."""

from __future__ import annotations

import json

import pytest
from airflow.sdk.execution_time import task_runner

from airflow_provider_workflow.client.errors import LoginRequiredError, TokenStoreError
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.user_tokens import UserTokens
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
def test_the_secret_is_not_stored_and_the_description_has_no_token(variables: Variables) -> None:
    store_of().write(TOKENS)
    assert "client-secret-value" not in variables.values[NAME]
    assert [each for each in SECRETS if each in str(variables.asked[-1].description)] == []


@pytest.mark.parametrize(
    "value",
    [
        "",
        "by hand refresh-token-value",
        "[]",
        "[" * 100_000,
        json.dumps({"access_token": "refresh-token-value"}),
        json.dumps({**vars(TOKENS), "access_token": 5}),
        json.dumps({**vars(TOKENS), "renew_at": "soon"}),
    ],
    ids=["nothing", "words", "a list", "a deep list", "one token", "a number", "a word for a time"],
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
    assert masked[2:] == [variables.values[NAME], *masked[:2]], "the value of the Variable too"


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
