"""Fixtures for tests of the hook."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.client.isolation import isolated

__all__ = ["isolated"]

Connect = Callable[..., WorkflowHook]


class Variables(dict[str, str]):
    """Airflow's Variables."""

    def set(self, key: str, value: str, description: str) -> None:
        self[key] = value


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    variables = Variables()
    monkeypatch.setattr(airflow_internals, "variables", lambda: variables)
    return variables


@pytest.fixture
def connect(emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Makes a hook for a connection to the emulator, with some of its fields changed."""
    monkeypatch.setattr("airflow_provider_workflow.client.sync_client.BACKOFF_SECONDS", 0.0)

    def make(extra: dict[str, Any] | None = None, **changes: Any) -> WorkflowHook:
        fields = {**emulator.connection(), **changes}
        fields["extra"] = {**fields["extra"], **(extra or {})}
        monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(fields))
        return WorkflowHook()

    return make


@pytest.fixture
def hook(connect: Connect) -> WorkflowHook:
    return connect()
