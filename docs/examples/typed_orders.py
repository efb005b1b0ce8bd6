"""Starts a run for each order; a type checker knows the fields of messages, payloads and results."""

from datetime import datetime
from typing import Any, TypedDict

from airflow.sdk import DAG, task

from airflow_provider_workflow.dispatch.payloads import payload_of
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.types import DispatchResult, Message


class Order(TypedDict):
    number: int
    items: list[str]


def label(message: Message[Order]) -> str:
    order = payload_of(message)
    return f"{order['number']}: {', '.join(order['items'])}"


with DAG(
    "dispatch_orders",
    schedule="@hourly",
    start_date=datetime(2025, 1, 1),
    catchup=False,
    tags=["example"],
) as dag:
    dispatch = WorkflowInboxDispatchOperator(
        task_id="start_runs", inbox="orders", trigger_dag_id="handle_order"
    )

    @task
    def report(returned: Any) -> str:
        result: DispatchResult = returned
        return f"{result['started']['count']} orders"

    report(dispatch.output)

with DAG("handle_order", schedule=None, start_date=datetime(2025, 1, 1), tags=["example"]) as handler:

    @task(retries=3)
    def handle(dag_run: Any = None) -> str:
        return label(dag_run.conf["message"])

    handle()
