"""While the inbox "deliveries" has messages its asset gets events, and each message starts one DAG run."""

import logging

from airflow.sdk import AssetWatcher, dag, task

from airflow_provider_workflow.assets import create_asset, schedule_of
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

log = logging.getLogger(__name__)

# The triggerer waits for messages, and makes one event for a burst of them. It leases nothing.
trigger = WorkflowInboxNoticeTrigger(inbox="deliveries")
deliveries = create_asset(inbox="deliveries", watchers=[AssetWatcher(name="deliveries", trigger=trigger)])


# One run for all events since the last one: it leases all messages, so a second one would find none.
@dag(schedule=schedule_of(deliveries), max_active_runs=1, tags=["example", "workflow"], doc_md=__doc__)
def dispatch_deliveries():
    WorkflowInboxDispatchOperator(task_id="start_runs", inbox="deliveries", trigger_dag_id="handle_delivery")


@dag(schedule=None, tags=["example", "workflow"], doc_md=__doc__)
def handle_delivery():
    @task(retries=3)
    def handle(dag_run=None):
        message = dag_run.conf["message"]
        log.info("Delivery %s: %s", message["id"], message["payload"])

    handle()


dispatch_deliveries()
handle_delivery()
