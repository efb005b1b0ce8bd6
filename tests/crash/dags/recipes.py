"""The recipes under test, each with an inbox and a target of its own. Every fault is to be got over."""

import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher, task
from pydantic import BeforeValidator

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.assets import schedule_of
from airflow_provider_workflow.config import payload_objectstorage_path
from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.operators.inbox import (
    WorkflowAcknowledgeOperator,
    WorkflowInboxDispatchOperator,
)
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.crash.poison import PREFIX, survive

PATIENT = {"retries": 100, "retry_delay": timedelta(seconds=2), "retry_exponential_backoff": False}
WAITING = {"deferrable": True, "poll_interval": 1, "max_poll_interval": 5, **PATIENT}
LEASES = {"lease_seconds": 60, "lease_limit": int(os.environ["WORKFLOW_CRASH_LEASE_LIMIT"])}
CONTINUOUS = {"schedule": "@continuous", "max_active_runs": 1, "start_date": datetime(2025, 1, 1)}
CHECKED = {"schema": Annotated[Any, BeforeValidator(survive)]}
WORKED = Path(os.environ["WORKFLOW_CRASH_WORKED"])

with DAG("listen", **CONTINUOUS):
    WorkflowInboxSensor(
        task_id="listen",
        inbox="crash-sensor",
        trigger_dag_id="handle_sensor",
        dead_letter_dag_id="dead_letters_sensor",
        **CHECKED,
        **LEASES,
        **WAITING,
    )

notices = WorkflowInboxNoticeTrigger(
    inbox="crash-notice", renotify_seconds=15, poll_interval=2, max_poll_interval=10
)
asset = Asset("crash_notices", watchers=[AssetWatcher(name="crash_notices", trigger=notices)])

with DAG("drain", schedule=schedule_of(asset), max_active_runs=1, start_date=datetime(2025, 1, 1)):
    WorkflowInboxDispatchOperator(
        task_id="drain",
        inbox="crash-notice",
        trigger_dag_id="handle_notice",
        dead_letter_dag_id="dead_letters_notice",
        dead_letter_after=1,
        **CHECKED,
        **LEASES,
        **PATIENT,
    )

for dag_id in (f"dead_letters_{name}" for name in ("sensor", "notice", "batches", "decorated")):
    with DAG(dag_id, schedule=None, max_active_runs=100):
        # No worker is needed for it: the account reads the messages of all dead letters.
        EmptyOperator(task_id="keep")

if airflow_release() >= (3, 3) and not payload_objectstorage_path():
    from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger

    carrier = WorkflowInboxEventTrigger(
        inbox="crash-events", lease_seconds=60, poll_interval=2, max_poll_interval=10
    )
    events = Asset("crash_events", watchers=[AssetWatcher(name="crash_events", trigger=carrier)])

    with DAG("read_events", schedule=[events], start_date=datetime(2025, 1, 1)):
        EmptyOperator(task_id="read")  # what counts is that the event is stored

with DAG("work_first", **CONTINUOUS):
    wait = WorkflowInboxSensor(
        task_id="wait", inbox="crash-manual", acknowledge="manual", lease_seconds=60, **WAITING
    )

    @task(**PATIENT)
    def work(lease):
        for message in lease["messages"]:
            # One file a message; doing the work again changes nothing.
            (WORKED / message["id"]).touch()

    work(wait.output) >> WorkflowAcknowledgeOperator(task_id="acknowledge", lease=wait.output, **PATIENT)


@inbox_dag(
    inbox="crash-decorated",
    once_per="payload.key",
    schema={"type": "object", "required": ["key"]},
    max_active_runs=100,
    dead_letter_dag_id="dead_letters_decorated",
    dead_letter_after=1,
    listener_args=PATIENT,
    renotify_seconds=15,
    poll_interval=2,
    max_poll_interval=10,
    **LEASES,
)
def handle_decorated(message):
    EmptyOperator(task_id="handle")


notice_trigger = WorkflowInboxNoticeTrigger(
    inbox="crash-batches", renotify_seconds=15, poll_interval=2, max_poll_interval=10
)
available = Asset("crash_batches", watchers=[AssetWatcher(name="crash_batches", trigger=notice_trigger)])

with DAG("work_in_batches", schedule=schedule_of(available), max_active_runs=1):

    @task.workflow_inbox(
        inbox="crash-batches",
        batch_size=5,
        lease_seconds=60,
        dead_letter_dag_id="dead_letters_batches",
        **PATIENT,
    )
    def store(messages):
        for message in messages:
            if message["id"].startswith(PREFIX):
                os._exit(9)  # as a segmentation fault, or the end of the memory, would
            (WORKED / message["id"]).touch()

    store()
