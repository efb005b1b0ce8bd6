"""A listener whose messages start runs with one short task: what the API server does beside the page."""

from datetime import datetime

from airflow.sdk import DAG, task

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

START = datetime(2025, 1, 1)

with DAG("listen", schedule="@continuous", max_active_runs=1, start_date=START):
    WorkflowInboxSensor(task_id="listen", inbox="inbox_0", trigger_dag_id="handle", deferrable=True)

with DAG("handle", schedule=None, start_date=START):

    @task
    def handle():
        return None

    handle()
