"""One named method per endpoint, by id or by name, on a connection of Airflow."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from airflow.models.connection import Connection as StoredConnection
from airflow.sdk import Connection as TaskConnection
from airflow.sdk._shared.secrets_masker import redact
from airflow.sdk.log import mask_secret

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.client import errors
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks import workflow
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.client.calls import SUBSCRIPTION
from tests.unit.hooks.conftest import Connect


def test_nothing_is_looked_up_before_it_is_needed(emulator: EmulatorServer) -> None:
    assert WorkflowHook("no_such_connection").workflow_conn_id == "no_such_connection"
    assert emulator.requests == []


def test_a_connection_given_as_json_becomes_settings(connect: Connect, emulator: EmulatorServer) -> None:
    settings = connect({"timeout": 5, "verify": False}).settings
    assert settings.base_url == emulator.base_url
    assert (settings.timeout, settings.verify) == (5.0, False)
    assert settings.connection_id == "workflow_default"


def test_a_connection_given_as_a_uri_has_extras_that_are_texts(
    monkeypatch: pytest.MonkeyPatch, emulator: EmulatorServer
) -> None:
    extra = (
        f"oauth_url={quote(emulator.token_url, safe='')}&verify=false&timeout=7.5&grant=client_credentials"
    )
    uri = f"workflow://demo-client:demo-secret@127.0.0.1:{emulator.port}/http?{extra}"
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", uri)
    hook = WorkflowHook()
    assert hook.settings.base_url == emulator.base_url
    assert (hook.settings.timeout, hook.settings.verify) == (7.5, False)
    assert hook.list_inboxes() == []


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
def test_the_host_of_a_uri_may_be_an_ipv6_address(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert from_uri(connection, "[::1]:8080/http", monkeypatch).base_url == "http://[::1]:8080"
    assert from_uri(connection, "[2001:db8::7]", monkeypatch).base_url == "https://[2001:db8::7]"


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


def test_unenrolling(hook: WorkflowHook, emulator: EmulatorServer) -> None:
    hook.unenroll_promotion("e-1")
    assert emulator.store.unenrolled == ["e-1"]


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


@pytest.mark.parametrize("by", ["id", "name"])
def test_the_life_of_an_inbox(by: str, hook: WorkflowHook) -> None:
    made = hook.create_inbox(SUBSCRIPTION, "orders", "https://example.com/told")
    assert hook.ensure_inbox("orders", SUBSCRIPTION)["id"] == made["id"]
    inbox = str(made[by])
    assert hook.get_inbox(inbox)["id"] == made["id"]
    assert hook.update_inbox(inbox, None)["notification_url"] is None
    assert hook.pause_inbox(inbox)["status"] == "paused"
    assert [each["id"] for each in hook.list_inboxes(status="paused")] == [made["id"]]
    with pytest.raises(errors.InboxPausedError) as paused:
        hook.lease_messages(inbox)
    assert paused.value.paused_reason == "user"
    assert hook.resume_inbox(inbox)["status"] == "active"
    assert hook.delete_inbox(inbox)["id"] == made["id"]
    with pytest.raises(errors.NotFoundError):
        hook.get_inbox(inbox)


@pytest.mark.parametrize("by", ["id", "name"])
def test_the_life_of_a_message(by: str, hook: WorkflowHook, emulator: EmulatorServer) -> None:
    ids = emulator.put("orders", {"n": 1}, {"n": 2}, {"n": 3})
    inbox = "orders" if by == "name" else emulator.open_inbox("orders")
    lease = hook.lease_messages(inbox, lease_limit=2, lease_seconds=60)
    lease_id = str(lease["lease_id"])
    assert [each["payload"]["n"] for each in lease["results"]] == [1, 2]
    assert hook.acknowledge_messages(inbox, lease_id, ids[:1])["acked_id"]
    assert hook.release_messages(inbox, lease_id)["released_id"]
    assert [each["id"] for each in hook.list_messages(inbox)] == ids[1:]
    second = str(hook.lease_messages(inbox)["lease_id"])
    emulator.store.messages.expire()
    with pytest.raises(errors.LeaseExpiredError):
        hook.acknowledge_messages(inbox, second)


@pytest.mark.parametrize("arguments", [{"lease_seconds": 0}, {"lease_limit": 101}, {"inbox": ""}])
def test_bad_arguments_are_refused_before_anything_is_sent(
    arguments: dict[str, object], hook: WorkflowHook, emulator: EmulatorServer
) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        hook.lease_messages(**{"inbox": "orders", **arguments})
    assert emulator.requests == []


def test_hooks_share_the_token_of_their_connection(connect: Connect, emulator: EmulatorServer) -> None:
    for _ in range(3):
        connect().list_inboxes()
    assert emulator.count("token") == 1


def test_access_tokens_are_masked(
    hook: WorkflowHook, emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked: list[str] = []
    monkeypatch.setattr(workflow, "mask_secret", masked.append)
    hook.list_inboxes()
    assert [f"Bearer {each}" for each in masked] == [emulator.requests[-1].headers["authorization"]]


def test_masking_reaches_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk._shared.secrets_masker import redact

    mask_secret("a-token-to-be-masked")
    airflow_internals.mask_in_triggerer("another-token-to-be-masked")
    text = redact("a-token-to-be-masked another-token-to-be-masked")
    assert "token-to-be-masked" not in str(text)


def test_a_triggerer_masks_the_latest_300_secrets_only() -> None:
    for number in range(400):
        airflow_internals.mask_in_triggerer(f"a-token-with-number-{number}")
        airflow_internals.mask_in_triggerer("a-secret-of-a-connection")

    assert redact("a-token-with-number-0") == "a-token-with-number-0"
    assert redact("a-token-with-number-399 a-secret-of-a-connection") == "*** ***"


async def test_the_async_client_sends_the_same_calls(hook: WorkflowHook, emulator: EmulatorServer) -> None:
    from airflow_provider_workflow.client import api

    emulator.open_inbox("orders")
    async with hook.async_client() as client, hook.async_client() as other:
        assert client.session is other.session
        assert (await client.send(api.list_inboxes()))["count"] == 1
    assert client.session.closed
    assert client.settings.connection_id == "workflow_default"


async def test_the_async_client_names_what_the_connection_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", '{"conn_type": "workflow", "host": "a"}')
    with pytest.raises(errors.ConfigurationError, match="login is missing"):
        async with WorkflowHook().async_client():
            pass


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
