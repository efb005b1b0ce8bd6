"""DAGs with ``@inbox_dag``: one with a sensor, and one with business keys and a schema."""

import json

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, task
from typing_extensions import TypedDict

from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.types import Message


class Order(TypedDict):
    number: int


@task
def read_payload(message):
    """The payload as a task reads it, as ASCII text; and whether it came as text."""
    return json.dumps({"payload": message["payload"], "as_text": "payload_json" in message})


@inbox_dag("decorated", listener="sensor", max_active_runs=100)
def decorated(message):
    read_payload(message)


@inbox_dag("decorated-once", once_per="payload.key", dead_letter_dag_id="dead_order", dead_letter_after=1)
def decorated_once(message: Message[Order]):
    read_payload(message)


with DAG("dead_order", schedule=None):
    EmptyOperator(task_id="nothing")
