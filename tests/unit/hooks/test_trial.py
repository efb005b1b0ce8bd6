"""What the page's "Test" button says: one sentence that names the step and the fix."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.client.tokens import TOKENS
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.client.conftest import closed_port
from tests.unit.hooks.conftest import Connect

__all__ = ["closed_port"]


def says(hook: WorkflowHook) -> str:
    passed, text = hook.test_connection()
    assert not passed
    assert "\n" not in text
    return text


def test_a_right_connection_passes_with_one_token(hook: WorkflowHook, emulator: EmulatorServer) -> None:
    assert hook.test_connection() == (True, "A token was issued and the trigger inbox API accepts it.")
    assert [each.operation for each in emulator.requests] == ["token", "list_inboxes"]


def test_an_incomplete_connection_names_what_is_missing(connect: Connect) -> None:
    text = says(connect(login=None, password=""))
    assert text.startswith("The workflow connection cannot be used: login is missing")
    assert "password is missing" in text


def test_a_token_endpoint_that_is_away(connect: Connect, closed_port: int) -> None:
    text = says(connect({"oauth_url": f"http://127.0.0.1:{closed_port}/token"}))
    assert text.startswith(f"No access token: 127.0.0.1:{closed_port} cannot be reached")
    assert "check Token URL" in text


def test_an_api_that_is_away(connect: Connect, closed_port: int) -> None:
    text = says(connect(host=f"http://127.0.0.1:{closed_port}"))
    assert text.startswith("A token was issued, but the trigger inbox API did not accept it: 127.0.0.1")
    assert "check Base URL" in text


@pytest.mark.parametrize("change", [{"password": "wrong-secret"}, {"login": "wrong-id"}])
def test_wrong_credentials(change: dict[str, Any], connect: Connect) -> None:
    text = says(connect(**change))
    assert text.startswith(
        "No access token: The request for an access token was answered with 401 (invalid_client)"
    )
    assert "correct its Client ID (login) and Client secret (password)" in text
    assert "wrong-secret" not in text


def test_an_unknown_scope(connect: Connect) -> None:
    assert "(invalid_scope)" in says(connect({"scope": "unheard-of"}))


def test_a_scope_that_does_not_open_the_inbox(connect: Connect) -> None:
    text = says(connect({"scope": "workflow"}))
    assert text.startswith(
        "A token was issued, but the trigger inbox API did not accept it: The request for the list of inboxes"
    )
    assert "(invalid_audience)" in text
    assert "correct its Scope" in text


@pytest.mark.parametrize("path", ["/wrong-path", "/wrong/path"])
def test_a_wrong_path(path: str, connect: Connect) -> None:
    assert "answered with 404" in says(connect({"inbox_path": path}))


def test_a_wrong_token_path(connect: Connect, emulator: EmulatorServer) -> None:
    text = says(connect({"oauth_url": f"{emulator.base_url}/nothing"}))
    assert text.startswith("No access token: The request for an access token was answered with 404")


def test_a_failing_service_is_asked_once(hook: WorkflowHook, emulator: EmulatorServer) -> None:
    emulator.fault("status", operation="token", status=503, times=None)
    assert says(hook).startswith("No access token: The request for an access token was answered with 503")
    assert emulator.count("token") == 1


def test_the_token_cache_is_neither_used_nor_filled(connect: Connect, emulator: EmulatorServer) -> None:
    connect().list_inboxes()
    emulator.store.configure(client_secret="regenerated")
    hook = connect(password=emulator.client_secret)
    emulator.store.configure(client_secret="regenerated once more")
    assert says(hook).startswith("No access token")
    before = dict(TOKENS._tokens)
    emulator.store.configure(client_secret="regenerated")
    assert hook.test_connection()[0]
    assert TOKENS._tokens == before


def test_a_bundle_of_certificates_that_is_gone(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/file.pem")
    assert says(connect()).startswith("The workflow connection cannot be used: REQUESTS_CA_BUNDLE")
