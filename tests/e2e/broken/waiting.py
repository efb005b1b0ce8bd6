"""One listener for each inbox of the test, and one target for all, which the test breaks (``mended.py``)."""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

for count in (1, 3, 5, 20):
    with DAG(
        f"wait_{count}",
        schedule="@continuous",
        max_active_runs=1,
        start_date=datetime(2025, 1, 1),
        catchup=False,
    ):
        WorkflowInboxSensor(
            task_id="work",
            inbox=f"waiting-{count}",
            trigger_dag_id="mended",
            deferrable=True,
            poll_interval=1,
            max_poll_interval=2,
            retries=1000,
            retry_delay=timedelta(seconds=1),
            retry_exponential_backoff=False,
        )
