"""What waits for messages, and what it starts."""

from datetime import datetime, timedelta

from airflow.sdk import DAG, task

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

START = datetime(2025, 1, 1)

with DAG("latency_listener", schedule="@continuous", max_active_runs=1, start_date=START):
    WorkflowInboxSensor(
        task_id="start_runs",
        inbox="latency",
        trigger_dag_id="latency_target",
        deferrable=True,
        retries=5,
        retry_delay=timedelta(seconds=5),
    )

# Paused, so that only the starting of runs is measured and not the running.
with DAG("latency_target", schedule=None, start_date=START, is_paused_upon_creation=True):

    @task
    def nothing():
        return None

    nothing()
