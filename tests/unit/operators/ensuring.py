"""The operator that ensures an inbox, run by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.ensure_inbox import WorkflowEnsureInboxOperator
from tests.unit.workbench import FakeTime

NAME = "orders"
SUBSCRIBED = {"app_key": "shop", "action_key": "new_order", "inputs": {"region": "eu"}}
MODULE = "airflow_provider_workflow.operators.ensuring"


def operator(**arguments: Any) -> WorkflowEnsureInboxOperator:
    given = {"name": NAME, **SUBSCRIBED, "deferrable": False, **arguments}
    return WorkflowEnsureInboxOperator(task_id="t", **given)


def ensure(**arguments: Any) -> Any:
    return operator(**arguments).execute({})


def deferred(ensuring: WorkflowEnsureInboxOperator) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        ensuring.execute({})
    return caught.value


def resume(ensuring: WorkflowEnsureInboxOperator, deferral: TaskDeferred, status: Any = "settled") -> Any:
    """Go on as Airflow does, with what crossed its database."""
    brought = json.loads(json.dumps({**(deferral.kwargs or {}), "event": {"status": status}}))
    return ensuring.resume_execution(str(deferral.method_name), brought, {})


@pytest.fixture(autouse=True)
def hands(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> FakeTime:
    """The time of the task, which passes only where it sleeps, for the emulator as well."""

    class Hands(FakeTime):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            clock.advance(seconds)

    fake = Hands()
    monkeypatch.setattr(f"{MODULE}.time", fake)
    return fake


def only_inbox(service: EmulatorServer) -> Any:
    (found,) = service.store.inboxes.page(10, 0)[1]
    return found
