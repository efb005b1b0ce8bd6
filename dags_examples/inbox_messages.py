"""Get the messages themselves: stored by Airflow, acknowledged, and returned (Airflow 3.3 or later)."""

import logging
from datetime import datetime, timedelta

from airflow.sdk import DAG, task

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

log = logging.getLogger(__name__)

with DAG("collect_readings", schedule=None, start_date=datetime(2025, 1, 1)):
    wait = WorkflowInboxSensor(
        task_id="wait",
        inbox="readings",
        deferrable=True,
        retries=3,
        retry_delay=timedelta(seconds=10),
    )

    @task
    def work(messages):
        for message in messages:
            log.info("Reading %s: %s", message["id"], message["payload"])

    work(wait.output)
