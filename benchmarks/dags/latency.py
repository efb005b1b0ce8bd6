"""What waits for messages, each at a place of its own, and what it starts."""

import os
from datetime import datetime

from airflow.providers.amazon.aws.sensors.sqs import SqsSensor
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from benchmarks.measured import BareOperator
from benchmarks.timed import PIPE_VARIABLE, PipeTrigger

ONCE = {"start_date": datetime(2025, 1, 1), "max_active_runs": 1}


def watched(name, trigger):
    return [Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])]


with DAG("sensor", schedule="@continuous", **ONCE):
    WorkflowInboxSensor(task_id="start_runs", inbox="sensor", trigger_dag_id="sensor_target", deferrable=True)

with DAG("checked", schedule="@continuous", **ONCE):
    WorkflowInboxSensor(
        task_id="start_runs",
        inbox="checked",
        trigger_dag_id="checked_target",
        deferrable=True,
        once_per="id",
        schema={"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    )

with DAG("notice", schedule=watched("notice", WorkflowInboxNoticeTrigger("notice")), **ONCE):
    WorkflowInboxDispatchOperator(task_id="start_runs", inbox="notice", trigger_dag_id="notice_target")

with DAG("floor", schedule=watched("floor", PipeTrigger(os.environ[PIPE_VARIABLE])), **ONCE):
    BareOperator(task_id="start_runs", trigger_dag_id="floor_target")

# At its fastest: the longest wait of a poll, and no pause between two.
with DAG("queue", schedule="@continuous", **ONCE):
    SqsSensor(
        task_id="wait",
        sqs_queue=os.environ["WORKFLOW_BENCH_QUEUE"],
        deferrable=True,
        wait_time_seconds=20,
        poke_interval=0,
    ) >> TriggerDagRunOperator(task_id="start_run", trigger_dag_id="queue_target")

# Its runs are started by the event itself.
with DAG("event_target", schedule=watched("event", WorkflowInboxEventTrigger("event")), **ONCE):
    EmptyOperator(task_id="nothing")

for name in ("sensor", "checked", "notice", "floor", "queue"):
    # Paused, so that only the starting of runs is measured and not the running.
    with DAG(f"{name}_target", schedule=None, is_paused_upon_creation=True, **ONCE):
        EmptyOperator(task_id="nothing")
