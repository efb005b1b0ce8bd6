"""The operator that ensures an inbox, run by hand."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.manage_inbox import WorkflowEnsureInboxOperator
from tests.unit.fake_clock import FakeClock

NAME = "orders"
SUBSCRIBED = {"app_key": "shop", "action_key": "new_order", "inputs": {"region": "eu"}}


def operator(**arguments: Any) -> WorkflowEnsureInboxOperator:
    given = {"name": NAME, **SUBSCRIBED, **arguments}
    return WorkflowEnsureInboxOperator(task_id="t", **given)


def ensure(**arguments: Any) -> Any:
    return operator(**arguments).execute({})


@pytest.fixture(autouse=True)
def same_time(fake_clock: FakeClock, clock: ManualClock) -> None:
    """The clock of the emulator moves with that of the task."""
    fake_clock.moved_along.append(clock)


def only_inbox(service: EmulatorServer) -> Any:
    (found,) = service.store.inboxes.page(10, 0)[1]
    return found
