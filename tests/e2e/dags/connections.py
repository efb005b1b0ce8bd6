"""A dispatch through a connection that the run's conf names: one that a test has made."""

from airflow.sdk import DAG

from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator

with DAG("dispatcher_through", schedule=None):
    WorkflowInboxDispatchOperator(
        task_id="work",
        inbox="{{ dag_run.conf['inbox'] }}",
        trigger_dag_id="{{ dag_run.conf['target'] }}",
        workflow_conn_id="{{ dag_run.conf['conn_id'] }}",
    )
