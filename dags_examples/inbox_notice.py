"""While the inbox "deliveries" has messages its asset gets events; each message starts one DAG run."""

import logging
from datetime import datetime, timedelta

from airflow.sdk import DAG, AssetWatcher, task

from airflow_provider_workflow.assets import create_asset
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

log = logging.getLogger(__name__)

trigger = WorkflowInboxNoticeTrigger(inbox="deliveries")
deliveries = create_asset(inbox="deliveries", watchers=[AssetWatcher(name="deliveries", trigger=trigger)])

with DAG("dispatch_deliveries", schedule=[deliveries], max_active_runs=1, start_date=datetime(2025, 1, 1)):
    WorkflowInboxDispatchOperator(
        task_id="start_runs",
        inbox="deliveries",
        trigger_dag_id="handle_delivery",
        retries=5,
        retry_delay=timedelta(seconds=10),
        retry_exponential_backoff=True,
        max_retry_delay=timedelta(minutes=10),
    )

with DAG("handle_delivery", schedule=None, start_date=datetime(2025, 1, 1)):

    @task
    def handle(dag_run=None):
        message = dag_run.conf["message"]
        log.info("Delivery %s: %s", message["id"], message["payload"])

    handle()
