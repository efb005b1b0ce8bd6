"""
Every row has a test that names it: ``@pytest.mark.specification("9.1 refresh")``, where 9.1 is a section of
``docs/service.md``. A row may have several tests, and a test several rows.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_workflow.client.errors import InvalidRequestError
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.client.stores import authorize
from tests.unit.documents import ROOT, service_sections

HERE = Path(__file__).parent
SECTIONS = service_sections()
ROWS = {
    *("2.1 inbox", "2.2 initialization_failure"),
    "3.2 duplicates",
    *("4 bearer", "4.4 messages"),
    "7 templates",
    *("9.1 multipart", "9.1 credentials", "9.1 authorization code", "9.1 refresh"),
    *("9.1 client credentials", "9.1 not stored", "9.3 client secret"),
    *("10 response_type", "10 client_id", "10 redirect_uri", "10 scope", "10 response_mode", "10 state"),
    "10 code",
    *("11.1 errors", "11.2 400 unauthenticated", "11.2 400 field", "11.2 401 invalid_audience"),
    *("11.2 401 prefix", "11.2 404", "11.2 409", "11.3 401, 403, 409, 429, 503, 504", "11.3 500"),
    "11.4 expired",
    *("13.1 client_id", "13.1 body", "13.1 200", "13.2 400"),
    *("14.1 client identifier", "14.1 user access token", "14.1 app access token", "14.1 redirect URIs"),
    *("14.2 scopes", "14.3 approval", "14.3 state", "14.3 code", "14.3 access token", "14.3 expired"),
    *("14.3 refresh", "14.3 storage", "14.4 scope", "14.4 prefix"),
    "15 429, 503",
}
"""A section, and what of it the provider relies on."""


def marked() -> Iterator[str]:
    """The rows that tests name."""
    for path in HERE.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.specification":
                yield from map(ast.literal_eval, node.args)


def test_every_row_has_a_test_that_names_it_and_no_test_names_another() -> None:
    assert set(marked()) == ROWS


def test_every_row_belongs_to_a_section_that_exists() -> None:
    assert {row.partition(" ")[0] for row in ROWS} <= set(SECTIONS)


FOLDERS = ("airflow_provider_workflow", "benchmarks", "dags_examples", "docs", "tests", "tools")
NUMBER = r"\d+(?:\.\d+)*"
REFERENCE = re.compile(rf"docs/service\.md\s+({NUMBER}(?:(?:,|\s+and|\s+to)\s+{NUMBER})*)")


def sources() -> Iterator[tuple[str, str]]:
    """Files that may refer to a section, and what is in them."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md") and path.name != "test_specification.py":
                yield str(path.relative_to(ROOT)), path.read_text()


def numbers_in(text: str) -> list[str]:
    return [number for found in REFERENCE.findall(text) for number in re.findall(NUMBER, found)]


def test_every_reference_names_a_section_that_exists() -> None:
    found = {(name, number) for name, text in sources() for number in numbers_in(text)}
    assert len(found) > 50
    assert not [each for each in sorted(found) if each[1] not in SECTIONS]


@pytest.fixture
def hook(connected: EmulatorServer) -> WorkflowHook:
    return WorkflowHook()


@pytest.mark.specification("13.1 body")
def test_a_guess_is_made_of_its_description_as_json(hook: WorkflowHook, connected: EmulatorServer) -> None:
    hook.guess("When an order comes in, send an émail")
    (request,) = connected.requests
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.body) == {"description": "When an order comes in, send an émail"}


@pytest.mark.specification("7 templates")
def test_templates_are_asked_for_by_client_id_alone(hook: WorkflowHook, connected: EmulatorServer) -> None:
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
    forms = [
        re.findall(r'name="([^"]+)"\r\n\r\n(.*?)\r\n', each.body.decode()) for each in connected.requests
    ]
    assert [dict(form) for form in forms] == [
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
def test_quarantined_messages_are_listed_not_leased(hook: WorkflowHook, connected: EmulatorServer) -> None:
    connected.store.configure(quarantine_after=1)
    ids = connected.put("orders", 1)
    hook.lease_messages("orders")
    connected.store.messages.expire()
    connected.put("orders", 2)
    assert [each["id"] for each in hook.list_messages("orders") if each["status"] == "quarantined"] == ids
    assert ids[0] not in [each["id"] for each in hook.lease_messages("orders")["results"]]


@pytest.mark.specification("14.2 scopes")
def test_the_scopes_of_users_and_of_the_application_are_asked_for_and_granted(
    hook: WorkflowHook, connected: EmulatorServer
) -> None:
    scope = "workflow workflow:write authentication"
    url = hook.authorization_url(scope=scope, state="any")
    assert parse_qs(urlsplit(url).query)["scope"] == [scope]
    redirect = connected.store.settings.redirect_uris[0]
    code = authorize(connected.store.tokens, redirect, scope=scope)["code"]
    assert hook.exchange_code(code)["scope"] == scope
    for of_application in ("promotions:read", "promotions:write", "external"):
        assert hook.app_token(of_application)["scope"] == of_application


@pytest.mark.specification("11.2 400 field")
def test_a_field_that_the_service_refuses_is_named_by_the_error(hook: WorkflowHook) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        hook.create_inbox(
            {"app_key": "shop", "action_key": "new_order", "inputs": {}}, notification_url="no-address"
        )
    assert "notification_url" in raised.value.detail
    assert raised.value.detail in str(raised.value)
