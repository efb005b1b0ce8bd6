"""A notification of the service starts "dispatch_shipments"; a watcher that polls rarely is the fallback."""

import logging

from airflow.sdk import AssetWatcher, dag, task

from airflow_provider_workflow.assets import create_asset, schedule_of
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

log = logging.getLogger(__name__)

# For notifications that did not arrive: it lists the inbox every 5 minutes, and keeps no connection open.
fallback = WorkflowInboxNoticeTrigger(
    inbox="shipments", poll_interval=300, max_poll_interval=300, renotify_seconds=300, wake_on_events=False
)
shipments = create_asset(inbox="shipments", watchers=[AssetWatcher(name="shipments", trigger=fallback)])


# Each notification is an event of the asset, unless a run is queued. One run leases all messages.
@dag(schedule=schedule_of(shipments), max_active_runs=1, tags=["workflow"], doc_md=__doc__)
def dispatch_shipments():
    WorkflowInboxDispatchOperator(task_id="start_runs", inbox="shipments", trigger_dag_id="handle_shipment")


@dag(schedule=None, tags=["workflow"], doc_md=__doc__)
def handle_shipment():
    @task
    def handle(dag_run=None):
        message = dag_run.conf["message"]
        log.info("Shipment %s: %s", message["id"], message["payload"])

    handle()


dispatch_shipments()
handle_shipment()
