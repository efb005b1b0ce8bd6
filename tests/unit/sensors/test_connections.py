"""A sensor keeps one connection for all that one process looks, and closes it however it leaves."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.exceptions import AirflowRescheduleException

from airflow_provider_workflow.client import over_requests
from airflow_provider_workflow.client.errors import WorkflowError
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.sensors.tasks import POLL, Task
from tests.unit.workbench import TaskTimeout, Workbench


class Wires:
    """How many connections of tasks were opened, and how many of them are open."""

    def __init__(self) -> None:
        self.opened = 0
        self.open = 0


@pytest.fixture
def wires(monkeypatch: pytest.MonkeyPatch) -> Wires:
    # The look for quarantined messages has a short connection of its own.
    monkeypatch.setenv("AIRFLOW__WORKFLOW__QUARANTINE_CHECK_SECONDS", "0")
    counted = Wires()

    class Counted(over_requests.RequestsWire):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            counted.opened += 1
            counted.open += 1

        def close(self) -> None:
            super().close()
            counted.open -= 1

    monkeypatch.setattr(over_requests, "RequestsWire", Counted)
    return counted


def test_a_sensor_that_pokes_keeps_one_connection_and_closes_it(
    bench: Workbench, pauses: FakeClock, wires: Wires
) -> None:
    pauses.then(nothing, lambda: bench.put("a"))
    Task(bench, deferrable=False).execute()

    assert bench.service.count("lease") > 2
    assert (wires.opened, wires.open) == (1, 0)


def test_the_connection_is_closed_however_the_sensor_leaves_its_worker(
    bench: Workbench, wires: Wires
) -> None:
    task = Task(bench)
    deferral = task.execute()
    assert (wires.opened, wires.open) == (1, 0)
    task.resume(deferral, POLL)
    assert (wires.opened, wires.open) == (2, 0)
    with pytest.raises(AirflowRescheduleException):
        Task(bench, deferrable=False, mode="reschedule").execute()
    bench.service.fault("status", operation="lease", status=403, times=None)
    with pytest.raises(WorkflowError):
        Task(bench).execute()
    assert wires.opened == 4
    assert wires.open == 0


@pytest.mark.since(3, 3, "the task state store")
def test_a_task_that_is_ended_while_it_receives_closes_both_of_its_connections(
    bench: Workbench, wires: Wires
) -> None:
    def time_out() -> None:
        raise TaskTimeout

    bench.put("a")
    task = Task(bench, trigger_dag_id=None)
    task.store.after_set = time_out

    with pytest.raises(TaskTimeout):
        task.execute()
    assert bench.service.count("release") == 1
    assert (wires.opened, wires.open) == (2, 0)
