"""The pauses between the tries of a listener: errors double them, kills do not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_workflow.dispatch.rejections import TargetError
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.unit.fakes import StateStore
from tests.unit.sensors.tasks import sensor

PAUSES: dict[str, Any] = {
    "retries": 20,
    "retry_delay": timedelta(seconds=10),
    "max_retry_delay": timedelta(minutes=10),
    "retry_exponential_backoff": True,
}

since_3_3 = pytest.mark.since(3, 3, "retry_policy")


def pause(made: WorkflowInboxSensor, try_number: int, context: Any) -> float:
    """Seconds after a try that an exception ended."""
    decision = made.retry_policy.evaluate(TargetError("gone"), try_number, 20, context)  # type: ignore[union-attr]
    assert decision.action.value == "retry"
    assert decision.retry_delay is not None
    return decision.retry_delay.total_seconds()


@since_3_3
def test_each_error_doubles_the_pause_up_to_its_limit() -> None:
    context = {"task_state_store": StateStore()}
    made = sensor(**PAUSES)

    assert [pause(made, number, context) for number in range(1, 9)] == [10, 20, 40, 80, 160, 320, 600, 600]


@since_3_3
def test_kills_neither_double_the_pause_nor_count_towards_the_next_error() -> None:
    context = {"task_state_store": StateStore()}
    made = sensor(**PAUSES)

    assert not made.retry_exponential_backoff, "what Airflow goes by after a kill"
    assert made.retry_delay == timedelta(seconds=10)
    assert pause(made, 1, context) == 10
    # Tries 2 to 5 were killed, so nobody was asked.
    assert pause(made, 6, context) == 20


@since_3_3
@pytest.mark.parametrize("context", [None, {"task_state_store": StateStore(fault=OSError())}])
def test_where_errors_cannot_be_counted_tries_are(context: Any) -> None:
    assert pause(sensor(**PAUSES), 4, context) == 80


@since_3_3
def test_the_pause_grows_to_a_day_where_no_limit_is_given_and_never_overflows() -> None:
    made = sensor(**{**PAUSES, "max_retry_delay": None})

    assert pause(made, 5000, None) == 86_400


@since_3_3
def test_a_policy_of_the_users_own_and_constant_pauses_are_left_alone() -> None:
    from airflow.sdk import ExceptionRetryPolicy

    own = ExceptionRetryPolicy(rules=[])
    assert sensor(**PAUSES, retry_policy=own).retry_policy is own
    assert sensor(retry_exponential_backoff=False).retry_policy is None


@since_3_3
def test_by_default_errors_are_retried_for_two_and_a_half_hours() -> None:
    made = WorkflowInboxSensor(task_id="wait", inbox="orders", trigger_dag_id="handle")
    context = {"task_state_store": StateStore()}
    pauses = [pause(made, number, context) for number in range(1, (made.retries or 0) + 1)]

    assert pauses[:7] == [10, 20, 40, 80, 160, 320, 600]
    assert sum(pauses) == 2.5 * 3600 + 30


@since_3_3
def test_a_listener_with_such_pauses_is_serialized() -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    with DAG("listener", schedule=None, start_date=datetime(2025, 1, 1)) as dag:
        WorkflowInboxSensor(
            task_id="wait", inbox="orders", trigger_dag_id="handle", deferrable=True, **PAUSES
        )
    (encoded,) = DagSerialization.to_dict(dag)["dag"]["tasks"]

    assert encoded["__var"]["has_retry_policy"] is True
    assert not encoded["__var"].get("retry_exponential_backoff")
    (task,) = DagSerialization.from_dict(DagSerialization.to_dict(dag)).tasks
    assert task.retry_delay == timedelta(seconds=10)


def test_before_airflow_3_3_airflow_counts_all_tries(release: Callable[[int, int], None]) -> None:
    release(3, 2)

    assert sensor(**PAUSES).retry_exponential_backoff
