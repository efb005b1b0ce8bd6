"""
What Airflow itself does to a value on its way, with Airflow's own encoders.

Only sockets and databases are left out: what they are given is what these functions hand on.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from airflow.api_fastapi.execution_api.datamodels.dagrun import TriggerDAGRunPayload as ReceivedPayload
from airflow.models.trigger import handle_event_submit
from airflow.sdk.api.datamodels._generated import TriggerDAGRunPayload
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.execution_time.comms import SetXCom, TriggerDagRun, _RequestFrame, _ResponseFrame
from airflow.triggers.base import TriggerEvent
from pydantic import TypeAdapter

from airflow_provider_workflow.airflow_internals import airflow_release

if airflow_release() < (3, 3):
    pytest.skip("the encoders that are tried came with Airflow 3.3", allow_module_level=True)

from airflow.jobs.triggerer_job_runner import TriggerEventEntry, messages
from airflow.sdk.serde import deserialize

_ANY_OBJECT: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
_CHANGES: TypeAdapter[Any] = TypeAdapter(messages.TriggerStateChanges)


def to_supervisor(body: dict[str, Any]) -> Any:
    """From a task, or a trigger, to its supervisor: a frame of msgpack."""
    frame = _RequestFrame(id=1, body=body).as_bytes()
    return msgspec.msgpack.decode(bytes(frame[4:]), type=_RequestFrame).body


def from_supervisor(body: dict[str, Any]) -> Any:
    """From a supervisor to its task."""
    frame = _ResponseFrame(id=1, body=body).as_bytes()
    return msgspec.msgpack.decode(bytes(frame[4:]), type=_ResponseFrame).body


def through_api(value: dict[str, Any]) -> Any:
    """From the API server to a worker's supervisor: JSON that pydantic writes and reads."""
    return _ANY_OBJECT.validate_json(_ANY_OBJECT.dump_json(value))


def through_database(value: Any) -> Any:
    """Into a column of JSON and out of it; as a database does that has no text but UTF-8."""
    return json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False).encode().decode())


def to_a_run(message: TriggerDagRun) -> dict[str, Any]:
    """A request for a DAG run, from the task that makes it to ``dag_run.conf`` of the run's tasks."""
    request = TriggerDagRun.model_validate(to_supervisor(message.model_dump()))
    posted = TriggerDAGRunPayload(conf=request.conf or {}).model_dump_json(exclude_defaults=True)
    payload = ReceivedPayload.model_validate(json.loads(posted))
    conf: dict[str, Any] = from_supervisor(through_api(through_database(payload.conf)))
    return conf


def through_xcom(value: Any) -> Any:
    """A task's returned value, to the task that pulls it."""
    row = SetXCom(key="k", value=BaseXCom.serialize_value(value), dag_id="d", run_id="r", task_id="t")
    request = SetXCom.model_validate(to_supervisor(row.model_dump()))
    stored_value = through_database(json.loads(json.dumps(request.value)))
    pulled = from_supervisor(through_api({"value": stored_value}))["value"]
    return BaseXCom.deserialize_value(SimpleNamespace(value=pulled))


def through_event(payload: Any) -> Any:
    """The payload of a trigger's event, to the method that the deferred task resumes with."""
    entry = TriggerEventEntry(1, TriggerEvent(payload), None)
    changes = messages.TriggerStateChanges(events=[entry])
    event = _CHANGES.validate_python(to_supervisor(changes.model_dump())).events[0].event
    task: Any = SimpleNamespace(next_kwargs=None)
    session: Any = SimpleNamespace(flush=lambda: None)
    handle_event_submit(event, task_instance=task, session=session)
    if getattr(task, "next_method", None) is not None:
        raise ValueError("Airflow fails the task instead of resuming it")
    return deserialize(from_supervisor(through_api(through_database(task.next_kwargs))))["event"]
