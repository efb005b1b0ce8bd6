"""What a healthy hour has besides the example DAGs: a sensor that polls on its worker, and single calls."""

from airflow.sdk import DAG

from airflow_provider_workflow.operators.inbox import WorkflowReleaseOperator
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowDeleteInboxOperator,
    WorkflowEnsureInboxOperator,
)
from airflow_provider_workflow.operators.workflows import WorkflowUnenrollOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

with DAG("polling_listener", schedule=None):
    WorkflowInboxSensor(
        task_id="start_runs",
        inbox="parcels",
        trigger_dag_id="handle_order",
        deferrable=False,
        poll_interval=1,
    )

with DAG("release_returns", schedule=None):
    wait = WorkflowInboxSensor(task_id="wait", inbox="returns", acknowledge="manual", deferrable=True)
    WorkflowReleaseOperator(task_id="release", lease=wait.output)

with DAG("create_and_delete", schedule=None):
    create = WorkflowEnsureInboxOperator(
        task_id="create", name="short-lived", app_key="shop", action_key="new_order"
    )
    create >> WorkflowDeleteInboxOperator(task_id="delete", inbox="short-lived")

with DAG("leave_promotion", schedule=None):
    WorkflowUnenrollOperator(task_id="unenroll", enrollment_id="e-17")
