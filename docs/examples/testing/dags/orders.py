"""Starts one run of the DAG "price_order" for each order."""

from datetime import datetime

from airflow.sdk import DAG, task

from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator

with DAG("dispatch_orders", schedule=None, start_date=datetime(2025, 1, 1), tags=["example"]) as dag:
    WorkflowInboxDispatchOperator(task_id="start_runs", inbox="orders", trigger_dag_id="price_order")

with DAG("price_order", schedule=None, start_date=datetime(2025, 1, 1), tags=["example"]) as handler:

    @task(retries=3)
    def price(dag_run=None):
        return dag_run.conf["message"]["payload"]["price"]

    price()
