"""A listener, notices with their dispatcher, a carrier of messages, and watchers that have nothing to do."""

import os
import time
from datetime import datetime, timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAny, AssetWatcher, task

from airflow_provider_workflow.assets import schedule_of
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.soak.probe import ProbeTrigger
from tests.soak.recipes import IDLE, LISTENER_CONN

POLLS = {"poll_interval": 2, "max_poll_interval": 5}
RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=2), "retry_exponential_backoff": False}
START = datetime(2025, 1, 1)


def watched(name, trigger):
    return Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])


def idle(inbox, conn_id):
    return watched(inbox, WorkflowInboxNoticeTrigger(inbox, workflow_conn_id=conn_id, **POLLS))


with DAG("listen", schedule="@continuous", max_active_runs=1, start_date=START):
    WorkflowInboxSensor(
        task_id="listen",
        inbox="soak-sensor",
        trigger_dag_id="handle_sensor",
        workflow_conn_id=LISTENER_CONN,
        deferrable=True,
        **POLLS,
        **RETRIES,
    )

notices = watched("soak_notices", WorkflowInboxNoticeTrigger("soak-notice", renotify_seconds=10, **POLLS))
with DAG("drain", schedule=schedule_of(notices), max_active_runs=1, start_date=START):
    WorkflowInboxDispatchOperator(
        task_id="drain", inbox="soak-notice", trigger_dag_id="handle_notice", **RETRIES
    )

events = watched("soak_events", WorkflowInboxEventTrigger("soak-events", **POLLS))
with DAG("read_events", schedule=[events], start_date=START):
    EmptyOperator(task_id="read")

probe = watched("soak_probe", ProbeTrigger(os.environ["WORKFLOW_SOAK_INSIDE"]))
with DAG(
    "idle", schedule=AssetAny(probe, *(idle(*arguments) for arguments in IDLE.items())), start_date=START
):
    EmptyOperator(task_id="never")

with DAG("warm_up", schedule=None, start_date=START):

    @task
    def rest(number):
        """Long enough that every process of every worker has one at a time."""
        time.sleep(2)

    rest.expand(number=list(range(24)))

# No process is started for an empty task, so that the machine has time for the rest.
for dag_id in ("handle_sensor", "handle_notice"):
    with DAG(dag_id, schedule=None, start_date=START, max_active_runs=32):
        EmptyOperator(task_id="nothing")
