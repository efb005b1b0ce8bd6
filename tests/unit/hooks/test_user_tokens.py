"""User tokens in Airflow Variables: stored, read, renewed, in tasks and triggers."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, GetVariable, PutVariable, VariableResult

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    LoginRequiredError,
    TokenStoreError,
)
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.sync_client import WorkflowClient
from airflow_provider_workflow.client.tokens import TokenCache, token_key
from airflow_provider_workflow.client.user_tokens import UserTokens
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.user_tokens import VariableStore, variable_name
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.traces import secrets_in
from tests.unit.client.stores import authorize, logged_in
from tests.unit.hooks.conftest import Connect, Variables


class Supervisor(dict[str, str]):
    """The supervisor of a task, which keeps variables."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []
        self.fault: Exception | None = None

    def send(self, message: Any) -> Any:
        if not isinstance(message, (GetVariable, PutVariable)):
            return None  # secrets that are to be masked
        self.messages.append(message)
        if self.fault is not None:
            raise self.fault
        if isinstance(message, PutVariable):
            return self.update({message.key: str(message.value)})
        return (
            VariableResult(key=message.key, value=self[message.key])
            if message.key in self
            else ErrorResponse()
        )


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """Airflow's variables, as a task reaches them."""
    fake = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", fake, raising=False)
    # As in a task; a process that may use the database asks it instead.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    return fake


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


def store_of() -> VariableStore:
    return VariableStore(SETTINGS)


def test_a_cut_variable_is_named(variables: Supervisor) -> None:
    store_of().write(TOKENS)
    variables[NAME] = variables[NAME][:-7]
    text = f"connection 'workflow_default' cannot be used: the Variable '{NAME}' was changed by hand"
    with pytest.raises(LoginRequiredError, match=text):
        store_of().read()


@pytest.mark.parametrize(
    "changes",
    [
        {"access_token": "of-another-account"},
        {"refresh_token": "of-another-account"},
        {"expires_at": 9e9},
        {"signature": "00"},
        {"signature": None},
        {"signature": 1},
    ],
)
def test_planted_tokens_are_not_used(variables: Supervisor, changes: dict[str, Any]) -> None:
    """Every task can write the Variable, and the inboxes of another account would start the DAGs."""
    store_of().write(TOKENS)
    planted = {**json.loads(variables[NAME]), **changes}
    variables[NAME] = json.dumps({name: value for name, value in planted.items() if value is not None})

    with pytest.raises(LoginRequiredError, match="was changed by hand") as error_info:
        store_of().read()
    assert secrets_in(error_info.value, (*SECRETS, "of-another-account")) == []


def test_tokens_that_are_copied_to_another_connection_are_not_used(variables: Supervisor) -> None:
    store_of().write(TOKENS)
    other = VariableStore(replace(SETTINGS, connection_id="other"))
    variables[other.name] = variables[NAME]

    with pytest.raises(LoginRequiredError, match=r"connection 'other' .* was changed by hand"):
        other.read()
    assert store_of().read() == TOKENS


def test_where_airflow_has_teams_no_tokens_of_users_are_stored_or_read(
    user: WorkflowHook, emulator: EmulatorServer, variables: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: Any = {"access_token": "a", "refresh_token": "b", "expires_in": 60}

    for act in (user.list_inboxes, lambda: user.store_user_tokens(answer)):
        with monkeypatch.context() as teams:
            teams.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
            with pytest.raises(ConfigurationError, match=r"grant refresh_token cannot be used where Airflow"):
                act()
    assert (variables.messages, emulator.requests) == ([], [])


def test_a_store_that_is_away_is_no_reason_to_log_in(
    variables: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables.fault = RuntimeError("API server error")
    with pytest.raises(TokenStoreError, match="cannot be written: RuntimeError") as error_info:
        store_of().write(TOKENS)
    assert secrets_in(error_info.value, SECRETS) == []
    monkeypatch.setattr(airflow_internals, "variables", Mock(side_effect=PermissionError("denied")))
    with pytest.raises(TokenStoreError, match="cannot be read: PermissionError"):
        store_of().read()


@pytest.mark.specification("14.3 storage")
def test_every_token_is_masked_and_no_other_secret_is_stored(variables: Supervisor) -> None:
    masked_values: list[str] = []
    VariableStore(SETTINGS, masked_values.append).write(TOKENS)
    assert masked_values == ["access-token-value", "refresh-token-value"]
    assert "client-secret-value" not in variables[NAME]
    assert [secret for secret in SECRETS if secret in str(variables.messages[-1].description)] == []
    VariableStore(SETTINGS, masked_values.append).read()
    assert masked_values[2:] == [variables[NAME], *masked_values[:2]], "the value of the Variable too"


def test_outside_of_tasks_the_variable_is_that_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    database_variables: dict[str, str] = {}
    monkeypatch.delattr(task_runner, "SUPERVISOR_COMMS", raising=False)
    monkeypatch.setattr(
        "airflow.models.variable.Variable.get",
        lambda key, default_var: database_variables.get(key, default_var),
    )
    monkeypatch.setattr(
        "airflow.models.variable.Variable.set",
        lambda key, value, description: database_variables.update({key: value}),
    )
    assert store_of().read() is None
    store_of().write(TOKENS)
    assert store_of().read() == TOKENS
    assert list(database_variables) == [NAME]


@pytest.mark.parametrize(
    ("connection_id", "is_plain"),
    [("a.b-c", True), *((odd, False) for odd in ("a/b", "_x", "é", "x" * 201))],
)
def test_the_variable_s_name_says_token_and_fits_any_address(connection_id: str, is_plain: bool) -> None:
    name = variable_name(connection_id)
    assert name.startswith("workflow_token__")
    assert (name == f"workflow_token__{connection_id}") is is_plain
    assert len(name) <= 250
    assert name.isascii()
    assert "/" not in name


@pytest.fixture
def user(connect: Connect, variables: Supervisor) -> Iterator[WorkflowHook]:
    """A hook for a connection that uses the tokens of a user; nobody has logged in yet."""
    hook = connect({"grant": "refresh_token", "verify": False})
    yield hook
    hook.client.close()


def test_nobody_logs_in_for_a_connection_that_would_not_use_it(
    hook: WorkflowHook, emulator: EmulatorServer
) -> None:
    with pytest.raises(ConfigurationError, match="grant must be refresh_token"):
        hook.store_user_tokens({"access_token": "a", "refresh_token": "b"})
    assert emulator.requests == []


def test_an_answer_without_a_refresh_token_is_not_stored(user: WorkflowHook, variables: Supervisor) -> None:
    with pytest.raises(AuthenticationError, match="without a usable refresh_token"):
        user.store_user_tokens(user.app_token())
    assert variables == {}


@pytest.mark.specification("9.3 client secret")
def test_after_a_regenerated_secret_the_user_logs_in_again(
    user: WorkflowHook, emulator: EmulatorServer, connect: Connect
) -> None:
    def log_in(hook: WorkflowHook) -> None:
        redirect = emulator.store.settings.redirect_uris[0]
        hook.store_user_tokens(hook.exchange_code(authorize(emulator.store.tokens, redirect)["code"]))

    log_in(user)
    emulator.store.configure(client_secret="regenerated")
    after = connect({"grant": "refresh_token", "verify": False}, password="regenerated")
    with pytest.raises(LoginRequiredError, match="or the client secret since the login"):
        after.list_inboxes()
    log_in(after)
    assert after.list_inboxes() == []


def test_the_connection_test_leaves_user_tokens_alone(
    user: WorkflowHook,
    emulator: EmulatorServer,
    variables: Supervisor,
    monkeypatch: pytest.MonkeyPatch,
    connect: Connect,
) -> None:
    # As the page does it: under a random id, for which no tokens are stored.
    fields = emulator.connection()
    fields["extra"] = {**fields["extra"], "grant": "refresh_token", "verify": False}
    monkeypatch.setenv("AIRFLOW_CONN_AB12CD34", json.dumps(fields))
    for hook in (user, WorkflowHook("aB12Cd34")):
        has_passed, text = hook.test_connection()
        assert has_passed
        assert "A user's tokens are not tested here" in text
    assert [request.operation for request in emulator.requests] == ["token", "token"]
    assert variables.messages == []
    wrong = connect({"grant": "refresh_token"}, password="wrong")
    assert wrong.test_connection()[1].startswith("The request for an access token was answered with 401")


async def test_a_trigger_renews_through_the_same_variable(
    user: WorkflowHook, emulator: EmulatorServer
) -> None:
    store = VariableStore(user.settings)
    store.write(before := logged_in(emulator, 200))
    async with user.async_client() as client:
        assert (await client.send(api.list_inboxes()))["results"] == []
    after = store.read()
    assert after is not None
    assert after.refresh_token != before.refresh_token


PROCESSES, RENEWALS = 4, 8


@pytest.mark.slow
def test_processes_that_renew_at_once_all_end_with_a_valid_token(
    connect: Connect, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Threads, each with a cache of its own, stand for processes. Nothing in their store compares and sets.
    together = threading.Barrier(PROCESSES, timeout=30)

    class Slow(Variables):
        def get(self, *arguments: Any) -> Any:
            time.sleep(random.uniform(0, 0.002))  # others come between
            return super().get(*arguments)

    slow = Slow()
    monkeypatch.setattr(airflow_internals, "variables", lambda: slow)
    settings = connect({"grant": "refresh_token", "verify": False}).settings
    store = VariableStore(settings)
    store.write(logged_in(emulator))

    def renew_again_and_again(_: int) -> None:
        tokens = TokenCache()
        with WorkflowClient(settings, tokens=tokens, store=store) as client:
            client.send(api.list_inboxes())
            for _ in range(RENEWALS):
                together.wait()
                old_token = tokens.usable(key := token_key(settings, settings.scope))
                assert old_token is not None
                tokens.drop(key, old_token.value)
                client.send(api.list_inboxes())
                assert tokens.usable(key) != old_token

    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(renew_again_and_again, range(PROCESSES)))

    bodies = [request.body for request in emulator.requests if request.operation == "token"]
    counts = Counter(re.findall(rb'name="refresh_token"\r\n\r\n(.*?)\r\n', body)[0] for body in bodies)
    assert len(counts) == RENEWALS, "of several that send the same one, the service takes one"
    assert counts.total() > RENEWALS, "they did meet"
