"""Watchers with and without a queue of triggerers; two assets share the trigger of one of them."""

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider_workflow.assets import messages_of, schedule_of
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

SOON = {"poll_interval": 1, "max_poll_interval": 2}


def watched(name, trigger):
    return Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])


notices = watched("noticed", WorkflowInboxNoticeTrigger("noticed", queue="a", **SOON))
with DAG("dispatch_noticed", schedule=schedule_of(notices), max_active_runs=1):
    WorkflowInboxDispatchOperator(task_id="work", inbox="noticed", trigger_dag_id="target")

for name, inbox, queue in (
    ("first", "shared", "a"),
    ("second", "shared", "a"),
    ("unqueued", "unqueued", None),
):
    asset = watched(name, WorkflowInboxEventTrigger(inbox, queue=queue, **SOON))

    with DAG(name, schedule=[asset]):

        @task(task_id="work")
        def work(triggering_asset_events=None):
            (events,) = triggering_asset_events.values()
            return [message["id"] for event in events for message in messages_of(event)]

        work()
