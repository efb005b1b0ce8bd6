"""A lease is not wasted if its request had to wait, or if the task times out in the middle of its work."""

from __future__ import annotations

from typing import Any

import pytest

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
