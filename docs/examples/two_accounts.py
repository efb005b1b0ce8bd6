"""The inbox "orders" of two accounts, in one Airflow: each account has a connection, a DAG and a listener."""

import logging

from airflow.sdk import task

from airflow_provider_workflow.decorators import inbox_dag

log = logging.getLogger(__name__)

for stage in ("staging", "production"):

    @inbox_dag(
        inbox="orders",
        dag_id=f"handle_order_{stage}",
        workflow_conn_id=f"workflow_{stage}",
        tags=["example"],
    )
    @task(retries=3)
    def handle_order(message):
        log.info("Order %s", message["payload"])
