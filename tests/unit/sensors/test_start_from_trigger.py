"""What ``start_from_trigger`` cannot do fails where the DAG is parsed, with the argument and the fix."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from airflow.sdk import DAG, task, task_group

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

GIVEN: dict[str, Any] = {
    "task_id": "wait",
    "trigger_dag_id": "handle",
    "deferrable": True,
    "start_from_trigger": True,
}


def dag() -> DAG:
    return DAG("listener", schedule=None, start_date=datetime(2025, 1, 1))


@task
def chosen() -> str:
    return "orders"


@pytest.mark.since(3, 3, "start_from_trigger")
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (lambda: {"inbox": chosen()}, "inbox"),
        (lambda: {"inbox": "orders", "workflow_conn_id": chosen()}, "workflow_conn_id"),
    ],
)
def test_the_output_of_another_task_is_refused_for_an_argument_of_the_trigger(
    arguments: Callable[[], dict[str, Any]], field: str
) -> None:
    with (
        dag(),
        pytest.raises(
            ValueError,
            match=rf"^{field} cannot be another task's output with start_from_trigger=True: .*"
            r"Give a string or a Jinja template, or remove start_from_trigger",
        ),
    ):
        WorkflowInboxSensor(**GIVEN, **arguments())


@pytest.mark.since(3, 3, "start_from_trigger")
def test_an_argument_that_a_task_group_is_mapped_over_is_refused_as_well() -> None:
    @task_group
    def listen(inbox: Any) -> None:
        WorkflowInboxSensor(**GIVEN, inbox=inbox)

    with dag(), pytest.raises(ValueError, match=r"^inbox cannot be another task's output"):
        listen.expand(inbox=["orders", "invoices"])


@pytest.mark.since(3, 3, "start_from_trigger")
def test_the_output_of_another_task_is_taken_where_a_worker_looks_it_up() -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    with dag() as built:
        sensor = WorkflowInboxSensor(**{**GIVEN, "trigger_dag_id": chosen()}, inbox="{{ params.inbox }}")

    assert sensor.start_from_trigger
    assert sensor.upstream_task_ids == {"chosen"}
    encoded = DagSerialization.to_dict(built)["dag"]["tasks"]
    assert [each["__var"].get("start_from_trigger") for each in encoded] == [None, True]


def test_a_mapped_sensor_cannot_start_from_its_trigger() -> None:
    with (
        dag(),
        pytest.raises(
            ValueError,
            match=r"^start_from_trigger cannot be used with partial\(\)\.expand\(\): .*Remove it",
        ),
    ):
        WorkflowInboxSensor.partial(**GIVEN).expand(inbox=["orders", "invoices"])


def test_a_mapped_sensor_that_starts_on_a_worker_is_built() -> None:
    with dag() as built:
        WorkflowInboxSensor.partial(**{**GIVEN, "start_from_trigger": False}).expand(
            inbox=["orders", "invoices"]
        )

    assert built.task_ids == ["wait"]


def test_start_from_trigger_mapped_over_is_refused_where_the_task_begins() -> None:
    with dag():
        mapped = WorkflowInboxSensor.partial(
            task_id="wait", inbox="orders", trigger_dag_id="handle", deferrable=True
        ).expand(start_from_trigger=[True, False])

    with pytest.raises(ValueError, match=r"^start_from_trigger cannot be used with partial"):
        mapped.unmap({"start_from_trigger": True})
    assert mapped.unmap({"start_from_trigger": False}).start_from_trigger is False  # type: ignore[attr-defined]
