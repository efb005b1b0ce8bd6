"""Any message reaches the tasks of a DAG with ``@inbox_dag`` as it was sent."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import task
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import SetRenderedFields
from airflow.serialization import serialized_objects
from hypothesis import example, given

from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.dispatch.payloads import storable
from tests.unit.fuzz import journeys
from tests.unit.fuzz.budget import tries
from tests.unit.fuzz.payloads import ANY_PAYLOAD, MARKS, TEMPLATES, same

LARGE = {"text": "x" * 10_000_000}


@task
def work(message: Any) -> None: ...


@inbox_dag("orders")
def handle_order(message: Any) -> None:
    work(message)


STORED = serialized_objects.DagSerialization.to_dict(handle_order)
SERIALIZED = serialized_objects.DagSerialization.from_dict(STORED)


def conf_of(payload: Any) -> dict[str, Any]:
    """The conf of the run of a message with this payload, as its tasks get it."""
    attributes = {"lease_count": 1, "error_message": None, "possible_duplicate_data": False}
    message = {"id": "a", "created_at": "2026", "payload": payload, "message_attributes": attributes}
    conf = {"inbox_id": "i", "message": storable(message)}
    return journeys.from_supervisor(journeys.through_api(journeys.stored(conf)))  # type: ignore[no-any-return]


@tries(150)
@given(payload=ANY_PAYLOAD)
@example(payload=None)
@example(payload=LARGE)
@example(payload=list(TEMPLATES))
@example(payload=dict.fromkeys(MARKS, "datetime"))
def test_any_payload_reaches_a_task_and_is_shown_among_its_arguments(payload: Any) -> None:
    conf, running = conf_of(payload), handle_order.get_task("work").prepare_for_execution()
    running.render_template_fields({"dag_run": SimpleNamespace(conf=conf), "params": {}})  # type: ignore[arg-type]

    assert same(running.op_args[0]["payload"], payload)  # type: ignore[attr-defined]
    fields = SetRenderedFields(rendered_fields=task_runner._serialize_rendered_fields(running))
    journeys.stored(journeys.to_supervisor(fields.model_dump()))


@tries(150)
@given(payload=ANY_PAYLOAD)
@example(payload=None)
@example(payload=LARGE)
def test_no_message_is_rejected_by_the_form(payload: Any) -> None:
    conf = conf_of(payload)

    assert SERIALIZED.params.deep_merge(conf).validate()["message"] == conf["message"]


@pytest.mark.parametrize("message", ["text", None, 1, []])
def test_what_is_no_message_is_rejected_by_the_form(message: Any) -> None:
    with pytest.raises(Exception, match="Invalid input for param message"):
        SERIALIZED.params.deep_merge({"message": message}).validate()


def test_the_stored_dag_names_the_message_and_no_object_in_memory() -> None:
    assert '"op_args": ["message"]' in json.dumps(STORED)
    assert " object at 0x" not in json.dumps(STORED)
