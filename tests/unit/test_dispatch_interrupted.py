"""A lease is not wasted if its request had to wait, or if the task times out in the middle of its work."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.dispatch import lease
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error, lost
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import TaskTimeout, Workbench


def test_a_lease_of_a_minute_that_waited_at_the_rate_gate_starts_its_runs(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.put("a")
    headers = {"Retry-After": "40"}
    bench.service.fault("status", operation="lease", status=429, headers=headers, times=1)
    bench.dispatcher(lease_seconds=60).drain()

    assert fake_clock.elapsed < 60
    assert bench.supervisor.started == ["a"]


def test_a_resumed_task_that_times_out_in_its_check_releases_the_hand_off(bench: Workbench) -> None:
    def get_dag(dag_id: str) -> str:
        raise TaskTimeout

    task = Task(bench)
    deferral = task.execute()
    bench.put("a")
    event = task.leased()
    bench.ti.get_dag = get_dag  # type: ignore[attr-defined]

    with pytest.raises(TaskTimeout):
        task.resume(deferral, event)
    assert bench.states == {"a": "available"}


def time_out_at_the_first_release(monkeypatch: pytest.MonkeyPatch) -> None:
    sound, calls = WorkflowHook.release_messages, []

    def release_messages(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise TaskTimeout
        return sound(*given)

    monkeypatch.setattr(WorkflowHook, "release_messages", release_messages)


def test_a_resumed_task_that_times_out_while_it_releases_a_part_of_the_hand_off_releases_all(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(bench)
    deferral = task.execute()
    bench.put("a", "b")
    monkeypatch.setattr(lease, "LARGEST_HAND_OFF", 1)
    event = task.leased()
    time_out_at_the_first_release(monkeypatch)

    with pytest.raises(TaskTimeout):
        task.resume(deferral, event)
    assert bench.states == {"a": "available", "b": "available"}


def test_a_task_that_is_ended_while_it_starts_a_run_releases_its_message(bench: Workbench) -> None:
    def out_of_time() -> None:
        raise TaskTimeout

    bench.supervisor.on_start = out_of_time
    bench.put("a", "b")

    with pytest.raises(TaskTimeout):
        bench.ready_dispatcher().drain()
    assert bench.states == {"a": "available", "b": "available"}, "a is redelivered, and finds its run"


def test_a_task_that_is_ended_while_it_starts_a_dead_letter_releases_the_message(
    bench: Workbench,
) -> None:
    def get_dr_count(dag_id: str, states: Any = None, run_ids: Any = None) -> int:
        if bench.supervisor.asked:
            raise TaskTimeout
        return 0

    bench.allow_dead_letters()
    bench.put("a", lease_count=3)
    bench.supervisor.refuse("a", api_error(400, "import_errors"))
    bench.ti.get_dr_count = get_dr_count  # type: ignore[method-assign]

    with pytest.raises(TaskTimeout):
        bench.ready_dispatcher().drain()
    assert bench.dead_letters == {}
    assert bench.states == {"a": "available"}


def test_a_task_that_is_ended_while_it_makes_dead_letters_for_a_broken_target_releases_the_rest(
    bench: Workbench,
) -> None:
    looks: list[Any] = []

    def get_dr_count(dag_id: str, states: Any = None, run_ids: Any = None) -> int:
        looks.append(run_ids)
        if len(looks) > 1:
            raise TaskTimeout
        raise lost("ConnectError")

    bench.allow_dead_letters()
    bench.put("a", "b", lease_count=3)
    bench.put("c")
    dispatcher = bench.ready_dispatcher(lease_limit=3)
    bench.ti.get_dr_count = get_dr_count  # type: ignore[method-assign]

    with pytest.raises(TaskTimeout):
        dispatcher.drain()
    assert bench.states == {"a": "leased", "b": "available", "c": "available"}
