"""The application below ``/workflow``, as Airflow's API server mounts it, with users of SimpleAuthManager."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.api_fastapi.app import create_auth_manager, purge_cached_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.plugin.app import application
from tests.unit.cli.conftest import database, dead_letter_runs, engine, migrated
from tests.unit.cli.database import Database
from tests.unit.client.isolation import forget
from tests.unit.client.scripted_server import Script, ScriptedServer, answer

__all__ = ["database", "dead_letter_runs", "engine", "migrated"]

ROLES = ("viewer", "user", "op", "admin")
PAGE = {"X-Workflow-Page": "1", "Content-Type": "application/json"}
"""The headers that the page sends with a change."""
API = "/workflow/api/connections/workflow_default"

As = Callable[..., TestClient]


@pytest.fixture(scope="session")
def api_server() -> FastAPI:
    """Airflow's API server, with the application; it keeps nothing of a test."""
    server = FastAPI()
    server.mount("/workflow", application())
    return server


@pytest.fixture
def as_user(
    connected_emulator: EmulatorServer,
    database: Database,
    api_server: FastAPI,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[As]:
    """Make a client of the API server, with the cookie of a user in this role; None for nobody."""
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
    monkeypatch.setenv(
        "AIRFLOW__CORE__AUTH_MANAGER",
        "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
    )
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "the secret of a test " * 4)
    purge_cached_app()
    manager = create_auth_manager()

    def client(role: str | None, **more: Any) -> TestClient:
        cookies = {}
        if role is not None:
            user = SimpleAuthManagerUser(username=role, role=role, **more)
            cookies["_token"] = manager.generate_jwt(user)
        return TestClient(api_server, cookies=cookies, raise_server_exceptions=True)

    yield client
    purge_cached_app()


@pytest.fixture
def op(as_user: As) -> TestClient:
    """The client of a user who may read and change connections."""
    return as_user("op")


def error_of(answer: Any) -> str:
    """The code of an answer that is an error; its texts are not empty."""
    error = answer.json()["error"]
    assert error["title"]
    assert error["fix"]
    return str(error["code"])


def connect(monkeypatch: pytest.MonkeyPatch, emulator: EmulatorServer, **fields: Any) -> None:
    """Change fields of the connection, or of its extra."""
    connection = emulator.connection()
    for name, value in fields.items():
        (connection if name in connection else connection["extra"])[name] = value
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(connection))
    forget()


class Service(ScriptedServer):
    """A service that answers each request, for an inbox, inboxes or messages, with one text."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: dict[str, str] = {}

    def reply(self, request: bytes) -> Script:
        path = request.split(b" ", 2)[1].partition(b"?")[0].decode()
        if path == "/token":
            return self.token
        self.requests.append(request)
        kind = "messages" if path.endswith("/messages") else "list" if path.endswith("/inboxes") else "inbox"
        return answer(200, self.bodies[kind].encode())


@pytest.fixture
def answering_service(
    connected_emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Service]:
    with Service() as server:
        connect(monkeypatch, connected_emulator, host=server.url, oauth_url=f"{server.url}/token")
        yield server
