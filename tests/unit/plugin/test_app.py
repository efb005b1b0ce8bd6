"""The list of connections, and the modules of the page."""

from __future__ import annotations

import pytest
from airflow.models.connection import Connection
from fastapi.testclient import TestClient

from airflow_provider_workflow.plugin import service
from tests.unit.cli.burying import Burying
from tests.unit.plugin.conftest import API, error_of


def test_connections_are_listed_from_database_and_environment(
    op: TestClient, buried: Burying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_B", '{"conn_type": "workflow"}')
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "http://host")
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", "{")
    add = buried.database.add_connection
    add(Connection(conn_id="workflow_a", conn_type="workflow"))
    add(Connection(conn_id="mail", conn_type="smtp"))

    found = op.get("/workflow/api/connections").json()

    ids = [each["connection_id"] for each in found["connections"]]
    assert ids == ["workflow_a", "workflow_b", "workflow_default"]


def test_a_browser_asks_whether_a_module_has_changed_and_nothing_else_is_served(op: TestClient) -> None:
    module = op.get("/workflow/static/inboxes.js")

    assert module.headers["Content-Type"].startswith(("text/javascript", "application/javascript"))
    assert module.headers["Cache-Control"] == "no-cache"
    assert module.headers["X-Content-Type-Options"] == "nosniff"
    again = {"If-None-Match": module.headers["ETag"]}
    assert op.get("/workflow/static/inboxes.js", headers=again).status_code == 304
    for path in ("missing.js", "..%2fapp.py", ""):
        assert op.get(f"/workflow/static/{path}").status_code == 404


def test_an_error_that_nobody_expected_is_answered_without_its_text(
    op: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(service, "list_inboxes", fail)
    client = TestClient(op.app, cookies=op.cookies, raise_server_exceptions=False)

    answer = client.get(f"{API}/inboxes")

    assert (answer.status_code, error_of(answer)) == (500, "unexpected")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "secret" not in answer.text
    with pytest.raises(ZeroDivisionError):  # so that the API server logs it
        op.get(f"{API}/inboxes")
