"""Listeners through a connection that the run's conf names: one that a test has made."""

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

CONF = {
    "inbox": "{{ dag_run.conf['inbox'] }}",
    "trigger_dag_id": "{{ dag_run.conf['target'] }}",
    "workflow_conn_id": "{{ dag_run.conf['conn_id'] }}",
}

with DAG("dispatcher_through", schedule=None, default_args={"retries": 0}):
    WorkflowInboxDispatchOperator(task_id="work", **CONF)

with DAG("listener_through", schedule=None):
    WorkflowInboxSensor(
        task_id="work",
        deferrable=True,
        poll_interval=1,
        max_poll_interval=2,
        retries=30,
        retry_delay=timedelta(seconds=2),
        retry_exponential_backoff=False,
        **CONF,
    )
