"""What docs/service.md says of single fields on the wire, where no other test looks at it."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_workflow.client.errors import InvalidRequestError
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.client.stores import authorize

USER_SCOPES = ("workflow", "workflow:write", "authentication")
APP_SCOPES = ("promotions:read", "promotions:write", "external")


@pytest.fixture
def hook(connected: EmulatorServer) -> WorkflowHook:
    return WorkflowHook()


def form_of(body: bytes) -> dict[str, str]:
    """The fields of a multipart body."""
    return dict(re.findall(r'name="([^"]+)"\r\n\r\n(.*?)\r\n', body.decode()))


@pytest.mark.specification("13.1 body")
def test_a_guess_is_asked_for_by_its_description_as_json(
    hook: WorkflowHook, connected: EmulatorServer
) -> None:
    hook.guess("When an order comes in, send an émail")
    (request,) = connected.requests
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.body) == {"description": "When an order comes in, send an émail"}


@pytest.mark.specification("7 templates")
def test_templates_are_asked_for_by_the_client_id_and_no_token(
    hook: WorkflowHook, connected: EmulatorServer
) -> None:
    hook.list_templates(limit=1)
    (request,) = connected.requests
    assert request.path == "/v1/workflow-templates"
    assert parse_qs(request.query)["client_id"] == [connected.client_id]
    assert "authorization" not in request.headers


@pytest.mark.specification("9.1 multipart", "9.1 authorization code", "9.1 refresh", "9.1 client credentials")
def test_each_grant_sends_its_own_fields_and_no_others(hook: WorkflowHook, connected: EmulatorServer) -> None:
    redirect = connected.store.settings.redirect_uris[0]
    code = authorize(connected.store.tokens, redirect)["code"]
    first = hook.exchange_code(code)
    second = hook.refresh_user_token(first["refresh_token"])
    third = hook.app_token("external")
    assert all(
        each.headers["content-type"].startswith("multipart/form-data; boundary=")
        for each in connected.requests
    )
    assert [form_of(each.body) for each in connected.requests] == [
        {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect},
        {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]},
        {"grant_type": "client_credentials", "scope": "external"},
    ]
    assert first["refresh_token"] != second["refresh_token"]
    assert "refresh_token" not in third


@pytest.mark.specification("4 bearer", "14.3 access token")
def test_inbox_calls_carry_the_token_as_a_bearer(hook: WorkflowHook, connected: EmulatorServer) -> None:
    inbox_id = connected.open_inbox("orders")
    hook.get_inbox(inbox_id)
    hook.list_messages(inbox_id)
    sent = [each for each in connected.requests if each.operation != "token"]
    inbox = f"/trigger-inbox/v1/inboxes/{inbox_id}"
    assert {each.path for each in sent} == {inbox, f"{inbox}/messages"}
    tokens = {each.headers["authorization"] for each in sent}
    assert len(tokens) == 1
    assert tokens.pop().removeprefix("Bearer ") in connected.store.tokens.issued


@pytest.mark.specification("4.4 messages")
def test_quarantined_messages_are_listed_and_not_leased(
    hook: WorkflowHook, connected: EmulatorServer
) -> None:
    connected.store.configure(quarantine_after=1)
    ids = connected.put("orders", 1)
    hook.lease_messages("orders")
    connected.store.messages.expire()
    connected.put("orders", 2)
    assert [each["id"] for each in hook.list_messages("orders") if each["status"] == "quarantined"] == ids
    assert ids[0] not in [each["id"] for each in hook.lease_messages("orders")["results"]]


@pytest.mark.specification("14.2 scopes")
@pytest.mark.parametrize("scope", USER_SCOPES)
def test_the_scopes_of_users_are_asked_for_and_granted(
    scope: str, hook: WorkflowHook, connected: EmulatorServer
) -> None:
    url = hook.authorization_url(scope=scope, state="any")
    assert parse_qs(urlsplit(url).query)["scope"] == [scope]
    redirect = connected.store.settings.redirect_uris[0]
    assert (
        hook.exchange_code(authorize(connected.store.tokens, redirect, scope=scope)["code"])["scope"] == scope
    )


@pytest.mark.specification("14.2 scopes")
@pytest.mark.parametrize("scope", APP_SCOPES)
def test_the_scopes_of_the_application_are_asked_for_and_granted(scope: str, hook: WorkflowHook) -> None:
    assert hook.app_token(scope)["scope"] == scope


@pytest.mark.specification("11.2 400 field")
def test_a_field_that_the_service_refuses_is_named_by_the_error(hook: WorkflowHook) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        hook.create_inbox(
            {"app_key": "shop", "action_key": "new_order", "inputs": {}}, notification_url="no-address"
        )
    assert "notification_url" in raised.value.detail
    assert raised.value.detail in str(raised.value)
    assert raised.value.source == {"pointer": "/notification_url"}
