"""Every message of the inbox "orders" starts one run of the DAG "handle_order"."""

import logging
from datetime import datetime, timedelta

from airflow.sdk import DAG, task

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

log = logging.getLogger(__name__)

with DAG("order_listener", schedule="@continuous", max_active_runs=1, start_date=datetime(2025, 1, 1)):
    pauses = {"retry_delay": timedelta(seconds=10), "max_retry_delay": timedelta(minutes=10)}
    options = {"deferrable": True, "retries": 20, "retry_exponential_backoff": True, **pauses}
    WorkflowInboxSensor(task_id="start_runs", inbox="orders", trigger_dag_id="handle_order", **options)

with DAG("handle_order", schedule=None, start_date=datetime(2025, 1, 1)):

    @task
    def handle(dag_run=None):
        log.info("Order %s: %s", dag_run.conf["message"]["id"], dag_run.conf["message"]["payload"])

    handle()
