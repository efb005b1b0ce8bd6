"""Each recipe with an inbox of its own, and a task for what it starts."""

from datetime import datetime

from airflow.sdk import DAG, AssetWatcher, task

from airflow_provider_workflow.assets import create_asset, messages_of, schedule_of
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

START = datetime(2025, 1, 1)


def watched(inbox, trigger):
    return create_asset(inbox=inbox, watchers=[AssetWatcher(name=inbox, trigger=trigger)])


@task
def handle():
    return None


for name in ("rest", "sensor", "notice"):
    with DAG(f"{name}_target", schedule=None, start_date=START):
        handle()

with DAG("sensor", schedule="@continuous", max_active_runs=1, start_date=START):
    WorkflowInboxSensor(task_id="listen", inbox="sensor", trigger_dag_id="sensor_target", deferrable=True)

notices = watched("notice", WorkflowInboxNoticeTrigger("notice"))
with DAG("notice", schedule=schedule_of(notices), max_active_runs=1, start_date=START):
    WorkflowInboxDispatchOperator(task_id="start_runs", inbox="notice", trigger_dag_id="notice_target")

events = watched("event", WorkflowInboxEventTrigger("event"))
with DAG("event", schedule=[events], start_date=START):

    @task
    def handle_all(triggering_asset_events=None):
        return sum(len(messages_of(event)) for event in triggering_asset_events[events])

    handle_all()

batches = watched("batches", WorkflowInboxNoticeTrigger("batches"))
with DAG("batches", schedule=schedule_of(batches), max_active_runs=1, start_date=START):

    @task.workflow_inbox(inbox="batches")
    def handle_batch(messages):
        return None

    handle_batch()
