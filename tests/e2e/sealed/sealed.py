"""What the search for secrets has besides the listeners; its inboxes bear the name that is looked for."""

import os
from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_workflow.assets import schedule_of
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.operators.manage_inbox import WorkflowEnsureInboxOperator
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

NAME = os.environ["SEALED_INBOX"]
NOTICED, CARRIED = f"{NAME}-noticed", f"{NAME}-carried"
SOON = {"poll_interval": 1, "max_poll_interval": 2}


def watched(name, trigger):
    return Asset(name, watchers=[AssetWatcher(name=name, trigger=trigger)])


with DAG("sealed_inbox", schedule=None):
    WorkflowEnsureInboxOperator(
        task_id="work",
        name=f"{NAME}-ensured",
        app_key="shop",
        action_key="new_order",
        notification_url="{{ var.value.sealed_secret_url }}",
    )

notices = WorkflowInboxNoticeTrigger(inbox=NOTICED, renotify_seconds=5, **SOON)
with DAG("sealed_notice", schedule=schedule_of(watched(NOTICED, notices)), max_active_runs=1):
    WorkflowInboxDispatchOperator(
        task_id="work", inbox=NOTICED, trigger_dag_id="target", retries=5, retry_delay=timedelta(seconds=1)
    )

with DAG("sealed_event", schedule=[watched(CARRIED, WorkflowInboxEventTrigger(CARRIED, **SOON))]):
    EmptyOperator(task_id="nothing")
