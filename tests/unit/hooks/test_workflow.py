"""One named method per endpoint, by id or by name, on a connection of Airflow."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.models.connection import Connection as StoredConnection
from airflow.sdk import Connection as TaskConnection
from airflow.sdk._shared.secrets_masker import redact

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.client import errors
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks import workflow
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.hooks.conftest import Connect

BY_URI = pytest.mark.parametrize("connection", [StoredConnection, TaskConnection])


def from_uri(connection: Any, rest: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What a connection that is given as a URI means, in a task and in the other processes of Airflow."""
    uri = f"workflow://an-id:a-secret@{rest}?oauth_url=https%3A%2F%2Fa%2Ftoken"
    if connection is StoredConnection:
        found = StoredConnection(conn_id="c", uri=uri)
    else:
        found = TaskConnection.from_uri(uri, conn_id="c")
    monkeypatch.setattr(WorkflowHook, "get_connection", lambda *_: found)
    return WorkflowHook("c").settings


@BY_URI
@pytest.mark.parametrize("rest", ["api.example.com/prefix", "[::1]:8080/http/prefix"])
def test_a_path_in_a_uri_is_named_as_what_is_wrong(
    connection: Any, rest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(errors.ConfigurationError, match="schema must be http or https") as caught:
        from_uri(connection, rest, monkeypatch)
    assert len(caught.value.problems) == 1


def test_an_incomplete_connection_names_every_missing_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", '{"conn_type": "workflow"}')
    with pytest.raises(errors.ConfigurationError) as raised:
        WorkflowHook().list_inboxes()
    for field in ("host", "login", "password", "oauth_url"):
        assert f"{field} is missing" in str(raised.value)


def test_guess_and_templates(hook: WorkflowHook) -> None:
    assert hook.guess("Send an email for each new order")["title"]
    assert len(hook.list_templates()) == 182
    assert len(hook.list_templates(apps=["mail"], limit=3)) == 3
    with pytest.raises(errors.GuessRejectedError):
        hook.guess("Good morning")


def test_the_flow_of_a_user_s_tokens(
    hook: WorkflowHook, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked: list[str] = []
    monkeypatch.setattr(workflow, "mask_secret", masked.append)
    url = hook.authorization_url(scope="workflow", state="random")
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    back = emulator.store.tokens.approve(query)
    first = hook.exchange_code(parse_qs(urlsplit(back).query)["code"][0])
    second = hook.refresh_user_token(first["refresh_token"])
    third = hook.app_token()
    assert masked == [
        *(first["access_token"], first["refresh_token"]),
        *(second["access_token"], second["refresh_token"]),
        third["access_token"],
    ]


def test_an_app_token_is_new_each_time_and_of_any_scope(hook: WorkflowHook) -> None:
    assert hook.app_token()["access_token"] != hook.app_token()["access_token"]
    assert hook.app_token("promotions:write")["scope"] == "promotions:write"


def test_access_tokens_are_masked(
    hook: WorkflowHook, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked: list[str] = []
    monkeypatch.setattr(workflow, "mask_secret", masked.append)
    hook.list_inboxes()
    assert [f"Bearer {each}" for each in masked] == [emulator.requests[-1].headers["authorization"]]


def test_a_triggerer_masks_the_latest_300_secrets_only() -> None:
    for number in range(400):
        airflow_internals.mask_in_triggerer(f"a-token-with-number-{number}")
        airflow_internals.mask_in_triggerer("a-secret-of-a-connection")

    assert redact("a-token-with-number-0") == "a-token-with-number-0"
    assert redact("a-token-with-number-399 a-secret-of-a-connection") == "*** ***"


@pytest.mark.parametrize("extra", ["no json", "[1]", "null", ""])
async def test_an_extra_that_is_no_object_holds_no_fields(
    extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"conn_type": "workflow", "host": "a", "login": "i", "password": "p", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(fields))
    with pytest.raises(errors.ConfigurationError, match=r"used: oauth_url is missing"):
        async with WorkflowHook().async_client():
            pass
    with pytest.raises(errors.ConfigurationError, match=r"used: oauth_url is missing"):
        _ = WorkflowHook().settings


async def test_a_secret_is_masked_without_the_line_break_that_was_stored_after_it(connect: Connect) -> None:
    for read in ("task", "trigger"):
        hook = connect(password=f"secret-of-a-{read}\n")
        if read == "task":
            assert hook.settings.client_secret == "secret-of-a-task"
        else:
            async with hook.async_client() as client:
                assert client.settings.client_secret == "secret-of-a-trigger"
        assert redact(f"it is secret-of-a-{read}.") == "it is ***."
