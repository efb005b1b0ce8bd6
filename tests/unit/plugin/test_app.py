"""The list of connections, and the modules of the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.models.connection import Connection
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_workflow import __version__
from airflow_provider_workflow.plugin import inboxes
from airflow_provider_workflow.plugin.app import Modules
from tests.unit.cli.burying import Burying
from tests.unit.plugin.conftest import API, error_of


def test_connections_are_listed_from_database_and_environment(
    op: TestClient, buried: Burying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_B", '{"conn_type": "workflow"}')
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "http://host")
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", "{")
    add = buried.database.add_connection
    add(Connection(conn_id="workflow_a", conn_type="workflow", description="for tests"))
    add(Connection(conn_id="mail", conn_type="smtp"))

    found = op.get("/workflow/api/connections").json()

    ids = {each["connection_id"]: each["description"] for each in found["connections"]}
    assert ids == {"workflow_a": "for tests", "workflow_b": None, "workflow_default": None}
    assert found["default"] == "workflow_default"


def test_modules_are_kept_by_version_and_nothing_else_is_served(tmp_path: Path) -> None:
    (tmp_path / "inboxes.js").write_text("export {}")
    (tmp_path / "secret.py").write_text("")
    server = FastAPI()
    server.mount("/static", Modules(directory=tmp_path))
    client = TestClient(server)

    current = client.get(f"/static/inboxes.js?v={__version__}")
    other = client.get("/static/inboxes.js")

    assert current.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert "immutable" in current.headers["Cache-Control"]
    assert other.headers["Cache-Control"] == "no-cache"
    etag = other.headers["ETag"]
    assert client.get("/static/inboxes.js", headers={"If-None-Match": etag}).status_code == 304
    for path in ("secret.py", "missing.js", "..%2fsecret.js", ""):
        assert client.get(f"/static/{path}").status_code == 404
    for ranges in ("bytes=0-1", f"bytes={','.join(f'{at}-' for at in range(5_000))}", "bytes=9-1", "x"):
        whole = client.get("/static/inboxes.js", headers={"Range": ranges, "If-Range": etag})
        assert (whole.status_code, whole.text) == (200, "export {}")


def test_an_error_that_nobody_expected_is_answered_without_its_text(
    op: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(inboxes, "listing", fail)
    client = TestClient(op.app, cookies=op.cookies, raise_server_exceptions=False)

    answer = client.get(f"{API}/inboxes")

    assert (answer.status_code, error_of(answer)) == (500, "unexpected")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "secret" not in answer.text
    with pytest.raises(ZeroDivisionError):  # so that the API server logs it
        op.get(f"{API}/inboxes")
