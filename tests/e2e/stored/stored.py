"""Every way to work on messages whose payloads are stored. Tasks return digests, and nothing of a payload."""

import hashlib
import json
import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.dispatch.dead_letters import message_of
from airflow_provider_workflow.dispatch.payloads import payload_of
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

RETRIES = {"retries": 20, "retry_delay": timedelta(seconds=1), "retry_exponential_backoff": False}
DEFERRED = {"deferrable": True, "poll_interval": 1, "max_poll_interval": 2}


def digest_of(payload):
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()


@task
def digest(message):
    return digest_of(message["payload"])


@inbox_dag("stored-decorated", max_active_runs=100, poll_interval=1, max_poll_interval=2)
def stored_decorated(message):
    digest(message)


@inbox_dag(
    "stored-invalid",
    schema={"type": "object", "required": ["no such field"]},
    dead_letter_dag_id="stored_dead_letters",
    dead_letter_after=1,
    poll_interval=1,
    max_poll_interval=2,
)
def stored_invalid(message):
    digest(message)


with DAG("stored_target", schedule=None, max_active_runs=100):

    @task(task_id="digest")
    def digest_of_run(dag_run=None):
        return digest_of(payload_of(dag_run.conf["message"]))

    digest_of_run()

with DAG("stored_dead_letters", schedule=None, max_active_runs=100):

    @task(task_id="digest")
    def digest_of_dead_letter(dag_run=None):
        return digest_of(message_of(dag_run.conf)["payload"])

    digest_of_dead_letter()

SENSORS = {"stored_sensor": DEFERRED, "stored_poking_sensor": {"deferrable": False, "poll_interval": 1}}
for name, sensor in SENSORS.items():
    with DAG(name, schedule=None, default_args=RETRIES):
        WorkflowInboxSensor(
            task_id="work", inbox=name.replace("_", "-"), trigger_dag_id="stored_target", **sensor
        )

with DAG("stored_dispatch", schedule=None, default_args=RETRIES):
    WorkflowInboxDispatchOperator(task_id="work", inbox="stored-dispatch", trigger_dag_id="stored_target")

with DAG("stored_batches", schedule=None, default_args=RETRIES):

    @task.workflow_inbox(inbox="stored-batches", batch_size=5)
    def work(messages):
        for message in messages:
            (Path(os.environ["STORED_DIGESTS"]) / digest_of(message["payload"])).touch()

    work()

if airflow_release() >= (3, 3):
    with DAG("stored_receiver", schedule=None, default_args=RETRIES):

        @task
        def digests(messages):
            return [digest_of(payload_of(message)) for message in messages]

        digests(WorkflowInboxSensor(task_id="receive", inbox="stored-receiver", **DEFERRED).output)
