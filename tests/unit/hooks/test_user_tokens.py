"""User tokens in an Airflow Variable: encrypted, found again, and said so where they cannot be read."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, GetVariable, PutVariable, VariableResult
from cryptography.fernet import Fernet

from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    LoginRequiredError,
    TokenStoreError,
)
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks import connected, user_tokens
from airflow_provider_workflow.hooks.user_tokens import VariableStore, variable_name
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.traces import told
from tests.unit.client.stores import authorize, logged_in
from tests.unit.hooks.conftest import Connect

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


class Variables:
    """The supervisor of a task, which keeps variables."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.asked: list[Any] = []
        self.fault: Exception | None = None

    def send(self, message: Any) -> Any:
        if not isinstance(message, (GetVariable, PutVariable)):
            return None  # secrets that are to be masked
        self.asked.append(message)
        if self.fault is not None:
            raise self.fault
        if isinstance(message, PutVariable):
            self.values[message.key] = str(message.value)
            return None
        if message.key in self.values:
            return VariableResult(key=message.key, value=self.values[message.key])
        return ErrorResponse()


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    """Airflow's variables, as a task reaches them."""
    fake = Variables()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", fake, raising=False)
    # As in a task; a process that may use the database asks it instead.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    return fake


def store_of(settings: Settings = SETTINGS) -> VariableStore:
    return VariableStore(settings, lambda _: None)


def test_what_is_stored_is_found_again(variables: Variables) -> None:
    assert store_of().read() is None
    store_of().write(TOKENS)
    assert store_of().read() == TOKENS
    assert list(variables.values) == [NAME]


@pytest.mark.specification("5.2.7")
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
    assert "the client secret is not the one they were stored with" in text
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
    assert masked[2:] == masked[:2]


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


# The hook


@pytest.fixture
def user(connect: Connect, variables: Variables) -> Iterator[WorkflowHook]:
    """A hook for a connection that uses the tokens of a user; nobody has logged in yet."""
    hook = connect({"grant": "refresh_token", "verify": False})
    yield hook
    hook.client.close()


def redirect(hook: WorkflowHook, emulator: EmulatorServer, state: str) -> dict[str, str]:
    url = hook.authorization_url(scope="external", state=state)
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    return authorize(emulator.store.oauth, query["redirect_uri"], query["state"], query["scope"])


def test_a_user_logs_in_and_tasks_use_the_tokens(
    user: WorkflowHook, emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    user.log_in(**redirect(user, emulator, "random"), expected_state="random")
    stored = VariableStore(user.settings, lambda _: None).read()
    assert stored is not None
    assert WorkflowHook().list_inboxes() == []
    assert emulator.requests[-1].headers["authorization"] == f"Bearer {stored.access_token}"
    assert emulator.count("token") == 1
    assert not [each for each in (stored.access_token, stored.refresh_token) if each in caplog.text]


@pytest.mark.parametrize("state", ["", "another", "rändom"])
def test_a_redirect_with_another_state_is_refused_before_anything_is_sent(
    state: str, user: WorkflowHook, emulator: EmulatorServer, variables: Variables
) -> None:
    code = redirect(user, emulator, "random")["code"]
    with pytest.raises(ValueError, match="state is not the one that was sent"):
        user.log_in(code=code, state=state, expected_state="random")
    with pytest.raises(ValueError, match="state"):
        user.log_in(code=code, state="", expected_state="")
    assert (emulator.requests, variables.values) == ([], {})


def test_a_code_that_came_too_late_stores_nothing(
    user: WorkflowHook, emulator: EmulatorServer, variables: Variables
) -> None:
    back = redirect(user, emulator, "random")
    emulator.store.clock.advance(121)  # type: ignore[attr-defined]
    with pytest.raises(AuthenticationError, match="invalid_grant"):
        user.log_in(**back, expected_state="random")
    assert variables.values == {}


def test_logging_in_again_ends_the_use_of_the_former_token(
    user: WorkflowHook, emulator: EmulatorServer
) -> None:
    for _ in range(2):
        user.log_in(**redirect(user, emulator, "random"), expected_state="random")
        user.list_inboxes()
    used = {each.headers["authorization"] for each in emulator.requests if each.operation == "list_inboxes"}
    assert len(used) == 2


def test_nobody_logs_in_for_a_connection_that_would_not_use_it(
    hook: WorkflowHook, emulator: EmulatorServer
) -> None:
    with pytest.raises(ConfigurationError, match="grant must be refresh_token"):
        hook.log_in(code="a", state="b", expected_state="b")
    with pytest.raises(ConfigurationError, match="grant must be refresh_token"):
        hook.store_user_tokens({"access_token": "a", "refresh_token": "b"})
    assert emulator.requests == []


def test_an_answer_without_a_refresh_token_is_not_stored(user: WorkflowHook, variables: Variables) -> None:
    with pytest.raises(AuthenticationError, match="without a refresh_token"):
        user.store_user_tokens(user.app_token())
    assert variables.values == {}


def test_without_a_login_the_error_says_what_to_do(user: WorkflowHook, emulator: EmulatorServer) -> None:
    with pytest.raises(LoginRequiredError, match=r"'workflow_default'.*none are stored.*Log in again"):
        user.list_inboxes()
    assert emulator.requests == []


@pytest.mark.specification("5.1 client secret")
def test_a_regenerated_secret_says_what_to_do(
    user: WorkflowHook, emulator: EmulatorServer, connect: Connect
) -> None:
    user.log_in(**redirect(user, emulator, "random"), expected_state="random")
    emulator.store.configure(client_secret="regenerated")
    after = connect({"grant": "refresh_token", "verify": False}, password="regenerated")
    with pytest.raises(LoginRequiredError, match="Log in again"):
        after.list_inboxes()
    assert emulator.count("token") == 1


def test_the_connection_test_leaves_user_tokens_alone(
    user: WorkflowHook,
    emulator: EmulatorServer,
    variables: Variables,
    monkeypatch: pytest.MonkeyPatch,
    connect: Connect,
) -> None:
    # As the page does it: under a random id, for which no tokens are stored.
    monkeypatch.setenv(
        "AIRFLOW_CONN_AB12CD34", json.dumps({**emulator.connection(), **user_fields(emulator)})
    )
    for hook in (user, WorkflowHook("aB12Cd34")):
        passed, text = hook.test_connection()
        assert passed
        assert "Tokens of users are not tried here" in text
    assert [each.operation for each in emulator.requests] == ["token", "token"]
    assert variables.asked == []
    wrong = connect({"grant": "refresh_token"}, password="wrong")
    assert wrong.test_connection()[1].startswith("No access token: app_token was answered with 401")


def user_fields(emulator: EmulatorServer) -> dict[str, Any]:
    return {"extra": {**emulator.connection()["extra"], "grant": "refresh_token", "verify": False}}


async def test_a_trigger_renews_through_the_same_variable(
    connect: Connect,
    emulator: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: dict[str, str] = {}
    monkeypatch.setattr(user_tokens, "read_variable", kept.get)
    monkeypatch.setattr(user_tokens, "write_variable", kept.__setitem__)
    masked: list[str] = []
    monkeypatch.setattr(connected, "mask_here", masked.append)
    hook = connect({"grant": "refresh_token", "verify": False})
    store = VariableStore(hook.settings, lambda _: None)
    store.write(before := logged_in(emulator, 200))
    from airflow_provider_workflow.client import api

    async with hook.async_client() as client:
        assert (await client.send(api.list_inboxes()))["results"] == []
    after = store.read()
    assert after is not None
    assert after.refresh_token != before.refresh_token
    assert {after.access_token, after.refresh_token} <= set(masked)
