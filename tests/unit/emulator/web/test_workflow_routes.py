"""Guess, templates and promotions over a real socket."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.emulator.conftest import Api

TEXT = {"description": "When an order comes in, send an email"}


def test_guess_needs_no_token_but_a_client_id(api: Api) -> None:
    del api.session.headers["Authorization"]
    response = api("POST", "/v2/guess", TEXT, params={"client_id": "demo-client"})
    assert response.status_code == 200
    assert api.session.get(response.json()["prefilled_url"], timeout=5).status_code == 200
    for query in ({}, {"client_id": "other"}):
        refused = api("POST", "/v2/guess", TEXT, params=query)
        assert refused.status_code == 401
        assert refused.json()["errors"][0]["source"] == {"parameter": "client_id"}


@pytest.mark.specification("13.2 400")
def test_a_text_that_is_no_workflow_is_400_with_messages(api: Api) -> None:
    response = api("POST", "/v2/guess?client_id=demo-client", {"description": "hello"})
    assert response.status_code == 400
    assert set(response.json()) == {"messages"}


def test_a_malformed_body_is_400_in_both_forms(api: Api) -> None:
    for content_type, code in (("application/json", "parse_error"), ("text/plain", "invalid")):
        headers = {"Content-Type": content_type}
        response = api("POST", "/v2/guess?client_id=demo-client", data=b"{", headers=headers)
        assert response.status_code == 400
        assert response.json()["errors"][0]["code"] == code
        assert response.json()["messages"][0]["detail"]


@pytest.mark.specification("7 templates")
def test_templates_are_a_bare_array(api: Api) -> None:
    query = {"client_id": "demo-client", "apps": "shop, mail", "limit": 1, "offset": 1}
    response = api("GET", "/v1/workflow-templates", params=query)
    assert response.status_code == 200
    assert len(response.json()) == 1
    assert len(api("GET", "/v1/workflow-templates?client_id=demo-client").json()) == 5
    assert api("GET", "/v1/workflow-templates").status_code == 401
    assert api("GET", "/v1/workflow-templates?client_id=demo-client&limit=101").status_code == 400


def test_a_user_is_unenrolled_with_an_app_token(emulator: EmulatorServer, api: Api) -> None:
    headers = {"Authorization": f"Bearer {emulator.token('promotions:write')}"}
    response = api("DELETE", "/v2/promotions/77", headers=headers)
    assert (response.status_code, response.content) == (204, b"")
    assert emulator.store.unenrolled == ["77"]
    assert api("DELETE", "/v2/promotions/77").status_code == 403


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/v2/guess", 405)])
def test_other_addresses_and_methods_are_errors_in_the_envelope(
    api: Api, method: str, path: str, status: int
) -> None:
    response = api(method, path)
    assert response.status_code == status
    assert response.json()["errors"][0]["status"] == status
