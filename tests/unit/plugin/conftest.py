"""The application below ``/workflow``, as Airflow's API server mounts it, with users of SimpleAuthManager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.api_fastapi.app import create_auth_manager, purge_cached_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi import FastAPI
from fastapi.testclient import TestClient

from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.plugin.app import application
from tests.unit.cli.burying import buried
from tests.unit.cli.conftest import database, migrated
from tests.unit.cli.database import Database

__all__ = ["buried", "database", "migrated"]

ROLES = ("viewer", "user", "op", "admin")
PAGE = {"X-Workflow-Page": "1", "Content-Type": "application/json"}
"""The headers that the page sends with a change."""
API = "/workflow/api/connections/workflow_default"

As = Callable[..., TestClient]


@pytest.fixture
def as_user(connected: EmulatorServer, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[As]:
    """Make a client of the API server, with the cookie of a user in this role; None for nobody."""
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
    monkeypatch.setenv(
        "AIRFLOW__CORE__AUTH_MANAGER",
        "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
    )
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "the secret of a test " * 4)
    purge_cached_app()
    manager = create_auth_manager()
    server = FastAPI()
    server.mount("/workflow", application())

    def client(role: str | None, **more: Any) -> TestClient:
        cookies = {}
        if role is not None:
            user = SimpleAuthManagerUser(username=role, role=role, **more)
            cookies["_token"] = manager.generate_jwt(user)
        return TestClient(server, cookies=cookies, raise_server_exceptions=True)

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
