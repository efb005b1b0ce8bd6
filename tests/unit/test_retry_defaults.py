"""Retries are on by default in the tasks that work on messages, and an explicit value wins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, TaskGroup
from airflow.serialization import serialized_objects

from airflow_provider_workflow.operators.dead_letters import WorkflowDeadLetterReplayOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

SECONDS_10, MINUTES_10 = timedelta(seconds=10), timedelta(minutes=10)
HOUR = timedelta(hours=1)
NAMES = ("retries", "retry_delay", "retry_exponential_backoff", "max_retry_delay")
EXPLICIT: dict[str, Any] = {
    "retries": 0,
    "retry_delay": timedelta(minutes=20),
    "retry_exponential_backoff": False,
    "max_retry_delay": timedelta(minutes=5),
}

START_RUNS = {"inbox": "orders", "trigger_dag_id": "handle"}
OPERATORS = [
    pytest.param(WorkflowInboxSensor, START_RUNS, (20, MINUTES_10), id="sensor"),
    pytest.param(WorkflowInboxDispatchOperator, START_RUNS, (5, MINUTES_10), id="dispatch"),
    pytest.param(WorkflowDeadLetterReplayOperator, {}, (20, timedelta(hours=6)), id="replay"),
]
with_each_operator = pytest.mark.parametrize(("operator", "arguments", "expected"), OPERATORS)


@contextmanager
def a_dag(**default_args: Any) -> Iterator[DAG]:
    with DAG("d", schedule=None, start_date=datetime(2025, 1, 1), default_args=default_args) as dag:
        yield dag


def scheduled(dag: DAG) -> dict[str, Any]:
    """What the scheduler reads of the only task of a DAG."""
    serialization = serialized_objects.DagSerialization
    (task,) = serialization.from_dict(serialization.to_dict(dag)).tasks
    return {name: getattr(task, name) for name in NAMES}


@with_each_operator
def test_retries_with_growing_and_limited_pauses_are_the_default(
    operator: Any, arguments: dict[str, Any], expected: Any
) -> None:
    made = operator(task_id="t", **arguments)

    assert (made.retries, made.max_retry_delay) == expected
    assert made.retry_delay == SECONDS_10
    assert made.retry_exponential_backoff


@with_each_operator
def test_an_explicit_value_wins(operator: Any, arguments: dict[str, Any], expected: Any) -> None:
    made = operator(task_id="t", **arguments, **EXPLICIT)

    assert {name: getattr(made, name) for name in NAMES} == EXPLICIT
    assert not made.retry_exponential_backoff


@with_each_operator
@pytest.mark.parametrize("level", ["dag", "task group", "outer task group", "task"])
def test_default_args_win(operator: Any, arguments: dict[str, Any], expected: Any, level: str) -> None:
    at = {
        each: EXPLICIT if each == level else {} for each in ("dag", "task group", "outer task group", "task")
    }
    with (
        a_dag(**at["dag"]),
        TaskGroup("outer", default_args=at["outer task group"]),
        TaskGroup("inner", default_args=at["task group"]),
    ):
        made = operator(task_id="t", default_args=at["task"], **arguments)

    assert {name: getattr(made, name) for name in NAMES} == EXPLICIT


def test_no_limit_of_the_pauses_is_an_explicit_value_too() -> None:
    assert (
        WorkflowInboxDispatchOperator(task_id="t", **START_RUNS, max_retry_delay=None).max_retry_delay is None
    )


@with_each_operator
def test_a_longer_first_pause_raises_the_default_limit_but_not_a_given_one(
    operator: Any, arguments: dict[str, Any], expected: Any
) -> None:
    day = timedelta(days=1)

    assert operator(task_id="t", **arguments, retry_delay=86400).max_retry_delay == day
    assert operator(task_id="t", **arguments, retry_delay=5).max_retry_delay == expected[1]
    limited = operator(task_id="t", **arguments, retry_delay=day, max_retry_delay=timedelta(minutes=10))
    assert limited.max_retry_delay == MINUTES_10


@with_each_operator
def test_a_class_of_the_users_own_keeps_the_defaults_that_it_does_not_replace(
    operator: Any, arguments: dict[str, Any], expected: Any
) -> None:
    class Own(operator):  # type: ignore[misc]
        RETRIES = 7

    with a_dag() as dag:
        made = Own(task_id="t", **arguments)
        mapped = Own.partial(task_id="mapped").expand_kwargs([arguments or {"conf": {}}])

    assert dag.task_ids == ["t", "mapped"]
    assert (made.retries, made.retry_delay) == (mapped.retries, mapped.retry_delay) == (7, SECONDS_10)
    assert made.max_retry_delay == mapped.max_retry_delay == expected[1]


@with_each_operator
def test_a_mapped_task_has_the_same_defaults_for_the_scheduler_and_the_worker(
    operator: Any, arguments: dict[str, Any], expected: Any
) -> None:
    with a_dag() as dag:
        mapped = operator.partial(task_id="t").expand_kwargs([arguments or {"conf": {}}])
    read = scheduled(dag)

    assert (read["retries"], read["max_retry_delay"]) == expected
    assert read["retry_delay"] == SECONDS_10
    assert read["retry_exponential_backoff"] in (True, 2)
    unmapped = mapped.unmap(arguments)
    assert (unmapped.retries, unmapped.retry_delay, unmapped.max_retry_delay) == (
        read["retries"],
        read["retry_delay"],
        read["max_retry_delay"],
    )
    assert unmapped.retry_exponential_backoff


@with_each_operator
@pytest.mark.parametrize("level", ["dag", "outer task group", "task", "argument"])
def test_an_explicit_value_of_a_mapped_task_wins(
    operator: Any, arguments: dict[str, Any], expected: Any, level: str
) -> None:
    at = {each: EXPLICIT if each == level else {} for each in ("dag", "outer task group", "task", "argument")}
    with (
        a_dag(**at["dag"]) as dag,
        TaskGroup("outer", default_args=at["outer task group"]),
        TaskGroup("inner"),
    ):
        partial = operator.partial(task_id="t", default_args=at["task"], **at["argument"])
        mapped = partial.expand_kwargs([arguments or {"conf": {}}])

    assert scheduled(dag) == EXPLICIT
    unmapped = mapped.unmap(arguments)
    assert {name: getattr(unmapped, name) for name in NAMES} == EXPLICIT


def test_a_longer_first_pause_raises_the_default_limit_of_a_mapped_task() -> None:
    with a_dag(retry_delay=HOUR) as dag:
        WorkflowInboxSensor.partial(task_id="t", trigger_dag_id="handle").expand(inbox=["a", "b"])

    assert scheduled(dag)["max_retry_delay"] == HOUR


@pytest.mark.since(3, 3, "the task state store")
def test_auto_needs_no_retries_to_be_given_but_rejects_none_at_all() -> None:
    assert WorkflowInboxSensor(task_id="t", inbox="orders").retries == 20
    with a_dag(retries=0), pytest.raises(ValueError, match=r"^retries must be 1 or more"):
        WorkflowInboxSensor(task_id="t", inbox="orders")


@pytest.mark.slow
def test_the_defaults_of_an_operator_win_over_those_of_the_whole_airflow() -> None:
    code = (
        "from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor as Sensor\n"
        "from airflow.sdk import BaseOperator, DAG\n"
        "with DAG('d', schedule=None):\n"
        "    mapped = Sensor.partial(task_id='m', trigger_dag_id='t').expand(inbox=['i', 'j'])\n"
        "    made = Sensor(task_id='s', inbox='i', trigger_dag_id='t')\n"
        "    others = BaseOperator(task_id='b')\n"
        "print(made.retries, made.retry_delay, mapped.retries, mapped.retry_delay, others.retries)\n"
    )
    configured = {"AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "3", "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "77"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **configured},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "20 0:00:10 20 0:00:10 3"
