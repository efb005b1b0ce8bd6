"""One inbox, several DAGs: the first expression that is true for a message chooses the DAG."""

import logging
from datetime import datetime, timedelta

from airflow.sdk import DAG, task

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

log = logging.getLogger(__name__)

with DAG("event_router", schedule="@continuous", max_active_runs=1, start_date=datetime(2025, 1, 1)):
    WorkflowInboxSensor(
        task_id="route",
        inbox="events",
        trigger_dag_id={
            "on_refund": "payload.type == 'refund'",
            "on_large_payment": "payload.type == 'payment' && payload.amount >= `1000`",
            "on_event": "payload",
        },
        max_unfinished_runs=50,
        deferrable=True,
        retries=20,
        retry_delay=timedelta(seconds=10),
        retry_exponential_backoff=True,
        max_retry_delay=timedelta(minutes=10),
    )

for dag_id in ("on_refund", "on_large_payment", "on_event"):
    with DAG(dag_id, schedule=None, start_date=datetime(2025, 1, 1)):

        @task
        def handle(dag_run=None):
            log.info("Event: %s", dag_run.conf["message"]["payload"])

        handle()
