"""The list of connections, and the modules of the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.models.connection import Connection
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_workflow import __version__
from airflow_provider_workflow.plugin.app import Modules
from tests.unit.cli.burying import Burying


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
