"""An inbox to be drained, and the DAG that its messages start."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.api.common import trigger_dag

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.database import Database

DRAIN = ("inbox", "drain", "orders", "--trigger-dag-id", "handle")


@pytest.fixture(autouse=True)
def handle(database: Database) -> Database:
    database.add_dag("handle")
    return database


@pytest.fixture(autouse=True)
def orders(emulator: EmulatorServer) -> str:
    return emulator.open_inbox("orders")


def put(emulator: EmulatorServer, *ids: str) -> None:
    emulator.put("orders", *({"n": each} for each in ids), ids=list(ids))


def states(emulator: EmulatorServer) -> dict[str, str]:
    return {each["id"]: each["status"] for each in emulator.summary("orders")["messages"]}


def counts(result: Any) -> list[int]:
    return [result[name]["count"] for name in ("started", "existing", "rejected")]


@pytest.fixture
def at_start(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What happens before each further run is started: an error that is raised, or something called."""
    steps: list[Any] = []
    start = trigger_dag.trigger_dag

    def stepping(dag_id: str, **given: Any) -> Any:
        step = steps.pop(0) if steps else None
        if isinstance(step, BaseException):
            raise step
        if step is not None:
            step()
        return start(dag_id, **given)

    monkeypatch.setattr(trigger_dag, "trigger_dag", stepping)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    return steps
