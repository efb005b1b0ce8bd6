"""Works on the invoices of an inbox, and acknowledges them after the work."""

from datetime import datetime

from airflow.sdk import DAG, task

from airflow_provider_workflow.operators.inbox import WorkflowAcknowledgeOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

with DAG("invoices", schedule=None, start_date=datetime(2025, 1, 1), tags=["example"]) as dag:
    wait = WorkflowInboxSensor(
        task_id="wait",
        inbox="invoices",
        acknowledge="manual",
        lease_seconds=1800,
        deferrable=True,
    )

    @task
    def add_up(lease):
        return sum(message["payload"]["amount"] for message in lease["messages"])

    add_up(wait.output) >> WorkflowAcknowledgeOperator(task_id="acknowledge", lease=wait.output)
