"""A notification of the service starts "dispatch_shipments"; its schedule is the fallback."""

import logging
from datetime import datetime, timedelta

from airflow.sdk import DAG, task

from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator

log = logging.getLogger(__name__)

with DAG(
    "dispatch_shipments",
    schedule="*/10 * * * *",
    start_date=datetime(2025, 1, 1),
    catchup=False,
    max_active_runs=1,
    params={"inbox": "shipments"},  # the receiver names the inbox in the conf of the run
):
    WorkflowInboxDispatchOperator(
        task_id="start_runs",
        inbox="{{ params.inbox }}",
        trigger_dag_id="handle_shipment",
        retries=5,
        retry_delay=timedelta(seconds=10),
        retry_exponential_backoff=True,
        max_retry_delay=timedelta(minutes=10),
    )

with DAG("handle_shipment", schedule=None, start_date=datetime(2025, 1, 1)):

    @task
    def handle(dag_run=None):
        message = dag_run.conf["message"]
        log.info("Shipment %s: %s", message["id"], message["payload"])

    handle()
