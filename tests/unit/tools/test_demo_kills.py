"""The kills of the demo: while messages are leased, one after the other, by process id."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.tools.fake_airflow import FakeAirflow, FakeAPI
from tools.demo_kills import PATIENCE_SECONDS, PAUSE_SECONDS, PLAN, Kills
from tools.demo_messages import order

OVERDUE = PAUSE_SECONDS + PATIENCE_SECONDS + 1


@pytest.fixture
def airflow(emulator: EmulatorServer) -> FakeAirflow:
    emulator.open_inbox("orders")
    return FakeAirflow(FakeAPI(emulator, "orders"))


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that may be killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def kills_of(airflow: FakeAirflow, *plan: str) -> Kills:
    return Kills(airflow, airflow.api.service, "orders", "order_listener", plan)


def lease(airflow: FakeAirflow, number: int = 1) -> None:
    airflow.api.service.put("orders", *map(order, range(number)))
    airflow.api.lease()


def running(airflow: FakeAirflow, pid: int, dag_id: str = "order_listener") -> None:
    airflow.api.tasks.append({"dag_id": dag_id, "pid": pid})
    airflow.below_scheduler.append(pid)


def test_a_component_is_killed_with_its_children_and_started_again(
    airflow: FakeAirflow, clock: ManualClock
) -> None:
    kills = kills_of(airflow, "triggerer")
    pid = airflow.leader("triggerer")
    clock.advance(1)
    lease(airflow, 3)

    line = kills.act(12.4)

    assert line == f"12 s: killed the triggerer (pid {pid}) while 3 messages were leased; started it again"
    assert airflow.done == [("kill", "triggerer"), ("start", "triggerer")]
    assert kills.done == 1
    assert kills.over


def test_nothing_is_killed_while_nothing_is_leased(airflow: FakeAirflow) -> None:
    kills = kills_of(airflow, "scheduler")
    airflow.api.service.put("orders", order(1))

    assert kills.act(PAUSE_SECONDS) is None
    lease(airflow)
    line = kills.act(PAUSE_SECONDS)
    assert line is not None
    assert "1 message was leased" not in line
    assert "2 messages were leased" in line


def test_after_a_kill_the_next_one_waits_for_a_pause_and_for_a_later_lease(
    airflow: FakeAirflow, clock: ManualClock
) -> None:
    kills = kills_of(airflow, "triggerer", "scheduler")
    lease(airflow)
    assert kills.act(10)
    clock.advance(1)
    assert kills.act(10 + PAUSE_SECONDS) is None, "the lease is from before the kill"
    lease(airflow)
    assert kills.act(9 + PAUSE_SECONDS) is None, "it is too soon"
    assert kills.act(10 + PAUSE_SECONDS)
    assert kills.act(100) is None, "all kills were made"


def test_without_a_lease_for_long_a_component_is_killed_nevertheless(airflow: FakeAirflow) -> None:
    line = kills_of(airflow, "scheduler").act(OVERDUE)

    assert line is not None
    assert "0 messages were leased" in line


def test_the_process_of_the_listeners_task_is_killed(
    airflow: FakeAirflow, process: subprocess.Popen[bytes]
) -> None:
    kills = kills_of(airflow, "worker")
    lease(airflow)
    running(airflow, airflow.leader("scheduler") + 1_000_000, "handle_order")
    running(airflow, process.pid)

    line = kills.act(PAUSE_SECONDS)

    assert process.wait(timeout=10) == -signal.SIGKILL
    worker = f"the worker of a task of order_listener (pid {process.pid})"
    assert line == f"8 s: killed {worker} while 1 message was leased; Airflow retries the task"
    assert airflow.done == []


def test_a_process_that_is_no_descendant_of_the_scheduler_is_not_killed(
    airflow: FakeAirflow, process: subprocess.Popen[bytes]
) -> None:
    kills = kills_of(airflow, "worker")
    lease(airflow)
    airflow.api.tasks.append({"dag_id": "order_listener", "pid": process.pid})

    assert kills.act(OVERDUE) is None
    assert process.poll() is None


@pytest.mark.parametrize("pid", [None, "leader"])
def test_a_task_without_a_process_of_its_own_is_not_killed(airflow: FakeAirflow, pid: object) -> None:
    lease(airflow)
    airflow.api.tasks.append(
        {"dag_id": "order_listener", "pid": pid and airflow.leader("scheduler")},
    )

    assert kills_of(airflow, "worker").act(OVERDUE) is None


def test_a_task_of_the_target_is_killed_only_if_the_listener_has_had_none_for_long(
    airflow: FakeAirflow, process: subprocess.Popen[bytes]
) -> None:
    kills = kills_of(airflow, "worker")
    lease(airflow)
    running(airflow, process.pid, "handle_order")

    assert kills.act(PAUSE_SECONDS) is None
    line = kills.act(OVERDUE)
    assert line is not None
    assert "of a task of handle_order" in line


def test_a_task_that_has_just_ended_is_not_counted_as_killed(
    airflow: FakeAirflow, process: subprocess.Popen[bytes]
) -> None:
    process.kill()
    process.wait(timeout=10)
    kills = kills_of(airflow, "worker")
    lease(airflow)
    running(airflow, process.pid)

    assert kills.act(PAUSE_SECONDS) is None
    assert kills.done == 0


def test_nothing_is_killed_while_a_lease_lasts_longer_than_the_demo_waits(airflow: FakeAirflow) -> None:
    kills = kills_of(airflow, "triggerer")
    lease(airflow)
    service = airflow.api.service
    service.put("orders", order(2))
    long = service.store.messages.lease(service.open_inbox("orders"), lease_seconds=3600)

    assert kills.act(OVERDUE) is None
    service.store.messages.acknowledge(service.open_inbox("orders"), long["lease_id"])
    assert kills.act(OVERDUE)


def test_a_component_that_ended_by_itself_is_started_again(airflow: FakeAirflow) -> None:
    kills = kills_of(airflow)
    assert kills.revive() == []
    airflow.ended.add("scheduler")

    assert kills.revive() == ["The scheduler ended by itself; started it again"]
    assert airflow.done == [("start", "scheduler")]


def test_the_plan_has_five_kills_of_every_kind() -> None:
    assert len(PLAN) == 5
    assert set(PLAN) == {"triggerer", "worker", "scheduler"}
