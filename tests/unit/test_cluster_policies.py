"""What a cluster policy sets on a task, after its DAG file made it, is what counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow import settings
from airflow.policies import hookimpl
from airflow.serialization.serialized_objects import DagSerialization

from tests.unit.decorators.parsing import dags_of
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import Workbench

MINUTES_30 = timedelta(minutes=30)
FILE = """
from airflow.sdk import DAG, task
from airflow_provider_workflow.operators.dead_letters import WorkflowDeadLetterReplayOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

GIVEN = {given!r}

with DAG("tasks", schedule=None):
    WorkflowInboxSensor(task_id="sensor", inbox="orders", trigger_dag_id="handle", **GIVEN)
    WorkflowInboxDispatchOperator(task_id="dispatch", inbox="orders", trigger_dag_id="handle", **GIVEN)
    WorkflowDeadLetterReplayOperator(task_id="replay", **GIVEN)

    @task.workflow_inbox(inbox="orders", **GIVEN)
    def batches(messages): ...

    batches()
"""
TASKS = ("sensor", "dispatch", "replay", "batches")
SET_BY_AIRFLOW = {
    "retries": 17,
    "retry_exponential_backoff": 1.7,
    "queue": "some queue",
    "pool": "some pool",
    "pool_slots": 19,
    "priority_weight": 23,
    "owner": "some owner",
    "max_active_tis_per_dag": 29,
    "run_as_user": "some user",
}


@contextmanager
def policy(**attributes: Any) -> Iterator[None]:
    """Airflow, with a cluster policy that sets these attributes of every task."""

    class Policy:
        @hookimpl
        def task_policy(self, task: Any) -> None:
            for name, value in attributes.items():
                setattr(task, name, value)

    manager = settings.get_policy_plugin_manager()
    registered = manager.register(Policy(), "policy of a test")
    try:
        yield
    finally:
        assert registered
        manager.unregister(name="policy of a test")


def scheduled(folder: Path, task_id: str, **given: Any) -> Any:
    """A task as the scheduler reads it, from a DAG file that gives it these arguments."""
    dag = dags_of(folder, FILE.format(given=given))["tasks"]
    return DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task(task_id)


@pytest.mark.parametrize("task_id", TASKS)
def test_a_retry_delay_is_obeyed(task_id: str, tmp_path: Path) -> None:
    with policy(retry_delay=MINUTES_30):
        task = scheduled(tmp_path, task_id)

    assert task.retry_delay == MINUTES_30
    # Before Airflow 3.3 there are no retry policies.
    assert not getattr(task, "has_retry_policy", False)


@pytest.mark.parametrize("task_id", TASKS)
def test_a_limit_of_the_pauses_is_obeyed(task_id: str, tmp_path: Path) -> None:
    with policy(max_retry_delay=timedelta(seconds=20), retry_delay=timedelta(seconds=30)):
        task = scheduled(tmp_path, task_id, max_retry_delay=600)

    assert task.max_retry_delay == timedelta(seconds=20)


@pytest.mark.parametrize("task_id", TASKS)
def test_nothing_is_kept_of_what_airflow_may_change(task_id: str, tmp_path: Path) -> None:
    task = dags_of(tmp_path, FILE.format(given=SET_BY_AIRFLOW))["tasks"].get_task(task_id)

    for name, value in SET_BY_AIRFLOW.items():
        assert getattr(task, name) == value
        assert {holder for holder, held in parts(task) if held == value} == {name}


def parts(task: Any) -> Iterator[tuple[str, Any]]:
    """All that a task has, with the attributes of objects that are made for it."""
    for name, value in vars(task).items():
        if name not in ("dag", "_dag", "task_group", "partial_kwargs") and not name.startswith(
            "_BaseOperator"
        ):
            yield name, value
            made = type(value).__module__.startswith("airflow_provider_workflow")
            yield from ((f"{name}.{each}", held) for each, held in (vars(value) if made else {}).items())


@pytest.mark.parametrize(("interval", "longest"), [(40, 60), (90, 90)])
def test_an_interval_reaches_the_trigger_too(bench: Workbench, interval: float, longest: float) -> None:
    task = Task(bench, poll_interval=5, max_poll_interval=60)
    task.sensor.poke_interval = interval

    trigger = task.execute().trigger
    assert (trigger.poll_interval, trigger.max_poll_interval) == (interval, longest)


@pytest.mark.since(3, 3, "the task state store")
def test_messages_are_not_leased_if_the_retries_that_auto_needs_are_taken_away(bench: Workbench) -> None:
    bench.put("a")
    task = Task(bench, trigger_dag_id=None, deferrable=False)
    task.sensor.retries = 0

    with pytest.raises(ValueError, match=r"^retries must be 1 or more with acknowledge=\"auto\""):
        task.execute()
    assert bench.lease_sizes == []
