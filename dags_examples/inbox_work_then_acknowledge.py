"""Wait for messages, work on them, and acknowledge them only after the work succeeded."""

import logging
from datetime import datetime, timedelta

from airflow.sdk import DAG, task

from airflow_provider_workflow.operators.inbox import WorkflowAcknowledgeOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

log = logging.getLogger(__name__)

with DAG("work_then_acknowledge", schedule=None, start_date=datetime(2025, 1, 1)):
    wait = WorkflowInboxSensor(
        task_id="wait",
        inbox="invoices",
        acknowledge="manual",
        lease_seconds=1800,  # longer than the work takes
        deferrable=True,
        retries=3,
        retry_delay=timedelta(seconds=10),
    )

    @task
    def work(lease):
        for message in lease["messages"]:
            log.info("Invoice %s: %s", message["id"], message["payload"])

    work(wait.output) >> WorkflowAcknowledgeOperator(task_id="acknowledge", lease=wait.output)
