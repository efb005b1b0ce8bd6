"""User tokens through the hook: a login, calls with its tokens, and what to do when they are of no use."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    LoginRequiredError,
)
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks import user_tokens, workflow
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.client.stores import authorize, logged_in
from tests.unit.hooks.conftest import Connect
from tests.unit.hooks.variables import Variables, variables

__all__ = ["variables"]


@pytest.fixture
def user(connect: Connect, variables: Variables) -> Iterator[WorkflowHook]:
    """A hook for a connection that uses the tokens of a user; nobody has logged in yet."""
    hook = connect({"grant": "refresh_token", "verify": False})
    yield hook
    hook.client.close()


def redirect(hook: WorkflowHook, emulator: EmulatorServer, state: str) -> dict[str, str]:
    url = hook.authorization_url(scope="external", state=state)
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    return authorize(emulator.store.tokens, query["redirect_uri"], query["state"], query["scope"])


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


@pytest.mark.specification("9.3 client secret")
def test_a_regenerated_secret_needs_no_new_login(
    user: WorkflowHook, emulator: EmulatorServer, connect: Connect
) -> None:
    user.log_in(**redirect(user, emulator, "random"), expected_state="random")
    emulator.store.configure(client_secret="regenerated")
    after = connect({"grant": "refresh_token", "verify": False}, password="regenerated")
    assert after.list_inboxes() == []
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
        assert "Tokens of users are not tested here" in text
    assert [each.operation for each in emulator.requests] == ["token", "token"]
    assert variables.asked == []
    wrong = connect({"grant": "refresh_token"}, password="wrong")
    assert wrong.test_connection()[1].startswith(
        "No access token: The request for an access token was answered with 401"
    )


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
    monkeypatch.setattr(workflow, "mask_in_triggerer", masked.append)
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
