"""Calls for the page: what fails is said as ``doctor`` says it, within one time limit, without secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.wire import Answer, Request
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.plugin import service
from airflow_provider_workflow.plugin.responses import PageError
from tests.unit.client.isolation import forget
from tests.unit.fake_clock import FakeClock
from tests.unit.plugin.conftest import API, error_of

LIST = f"{API}/inboxes"
SECRET = "a secret that is wrong"
UNKNOWN = "00000000-0000-4000-8000-00000000ffff"


def connect(monkeypatch: pytest.MonkeyPatch, emulator: EmulatorServer, **fields: Any) -> None:
    """Change fields of the connection, or of its extra."""
    connection = emulator.connection()
    for name, value in fields.items():
        (connection if name in connection else connection["extra"])[name] = value
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(connection))
    forget()


@pytest.mark.parametrize(
    ("fields", "status", "code", "fix"),
    [
        ({"password": SECRET}, 502, "wrong_credentials", "correct its Client ID (login) and Client secret"),
        ({"scope": "no-such-scope"}, 502, "wrong_credentials", "correct its Scope"),
        ({"host": "http://127.0.0.1:1"}, 502, "unreachable", "check Base URL and Inbox path"),
        ({"oauth_url": "http://127.0.0.1:1/"}, 502, "unreachable", "check Token URL, and the network"),
        ({"inbox_path": "/wrong"}, 404, "not_found", "check Inbox path (/wrong) and Base URL"),
        ({"host": ""}, 502, "wrong_credentials", "correct these fields"),
        ({"conn_type": "http"}, 404, "no_connection", "of the type Workflow"),
    ],
)
def test_a_connection_that_cannot_be_used_is_diagnosed(
    op: TestClient,
    connected: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    status: int,
    code: str,
    fix: str,
) -> None:
    connect(monkeypatch, connected, **fields)

    answer = op.get(LIST)

    assert (answer.status_code, error_of(answer)) == (status, code)
    assert fix in answer.json()["error"]["fix"]
    assert SECRET not in answer.text


def test_secrets_are_never_sent_for_a_connection_of_another_type(
    op: TestClient, connected: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, connected, conn_type="http")

    assert op.get(LIST).status_code == 404
    assert connected.requests == []


@pytest.mark.parametrize(
    ("fault", "status", "code", "wait"),
    [
        ({"status": 429, "headers": {"Retry-After": "7"}}, 429, "rate_limited", "7"),
        ({"status": 500}, 502, "service_error", None),
        ({"status": 403}, 502, "wrong_credentials", None),
        ({"status": 200, "text": "<html>", "content_type": "application/json"}, 502, "unreachable", None),
        ({"kind": "drop"}, 502, "unreachable", None),
    ],
)
def test_a_service_that_fails_is_asked_once(
    op: TestClient, connected: EmulatorServer, fault: dict[str, Any], status: int, code: str, wait: str | None
) -> None:
    connected.fault(**{"kind": "status", "operation": "list_inboxes", "times": None, **fault})

    answers = [op.get(LIST) for _ in range(3)]

    assert {(each.status_code, error_of(each)) for each in answers} == {(status, code)}
    assert answers[0].headers.get("Retry-After") == wait
    # urllib3 repeats a request whose connection was closed before it was sent.
    assert connected.count("list_inboxes") <= (2 if fault.get("kind") == "drop" else 1)


def test_what_does_not_exist_is_not_found(op: TestClient, connected: EmulatorServer) -> None:
    other = op.get(API.replace("default", "other") + "/inboxes")
    unknown = op.get(f"{LIST}/{UNKNOWN}/messages")

    assert (other.status_code, error_of(other)) == (404, "no_connection")
    assert (unknown.status_code, error_of(unknown)) == (404, "not_found")


@pytest.mark.parametrize("path", ["?cursor=x", "?cursor=-1", f"/{UNKNOWN}/messages?cursor={'x' * 5000}"])
def test_a_cursor_that_the_page_did_not_get_is_invalid(
    op: TestClient, connected: EmulatorServer, path: str
) -> None:
    answer = op.get(LIST + path)

    assert answer.status_code in (400, 404)
    assert error_of(answer) in ("invalid", "not_found")


def test_all_requests_of_an_answer_share_4_seconds(
    connected: EmulatorServer, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, limits = WorkflowClient.exchange, []

    def slowly(client: WorkflowClient, request: Request) -> Answer:
        limits.append(request.timeout)
        fake_clock.advance(1.5)
        return exchange(client, request)

    monkeypatch.setattr(WorkflowClient, "exchange", slowly)

    def list_often() -> None:
        with service.connected("workflow_default") as client:
            for _ in range(9):
                client.send(api.list_inboxes())

    with pytest.raises(PageError) as caught:
        list_often()

    assert limits == [4.0, 2.5, 1.0]
    assert (caught.value.status, caught.value.code) == (504, "timeout")
    assert caught.value.body["title"].endswith(" did not answer within 4 s")


def test_no_further_page_is_read_after_2_seconds(
    connected: EmulatorServer, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = WorkflowClient.exchange
    connected.put("orders", *range(250))
    inbox = connected.open_inbox("orders")
    whole = service.list_messages("workflow_default", inbox, None)

    def slowly(client: WorkflowClient, request: Request) -> Answer:
        fake_clock.advance(1.1)
        return exchange(client, request)

    monkeypatch.setattr(WorkflowClient, "exchange", slowly)
    part = service.list_messages("workflow_default", inbox, None)
    rest = service.list_messages("workflow_default", inbox, part["next"])

    assert (len(whole["messages"]), whole["next"]) == (250, None)
    assert (len(part["messages"]), len(rest["messages"]), rest["next"]) == (200, 50, None)


def test_an_answer_has_at_most_5_pages(connected: EmulatorServer) -> None:
    connected.put("orders", *range(620))
    for number in range(510):
        connected.open_inbox(f"inbox {number}")
    inbox = connected.open_inbox("orders")

    first = service.list_messages("workflow_default", inbox, None)
    second = service.list_messages("workflow_default", inbox, first["next"])
    inboxes = service.list_inboxes("workflow_default", None)
    others = service.list_inboxes("workflow_default", inboxes["next"])

    assert (len(first["messages"]), len(second["messages"]), second["next"]) == (500, 120, None)
    assert {each["id"] for each in first["messages"]}.isdisjoint(each["id"] for each in second["messages"])
    assert (len(inboxes["inboxes"]), inboxes["next"], len(others["inboxes"])) == (500, "500", 11)
