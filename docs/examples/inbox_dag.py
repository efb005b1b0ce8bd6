"""Each order starts one run, which charges and ships it. If it can start none, "dead_order" gets it."""

import logging
from datetime import timedelta

from airflow.sdk import task
from typing_extensions import TypedDict

from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.types import Message

log = logging.getLogger(__name__)


class Order(TypedDict):
    order_id: str
    total: float


@task
def charge(message, params=None):
    return message["payload"]["total"] * params["rate"]


@task
def ship(order_id, price):
    log.info("Order %s is shipped for %s", order_id, price)


@inbox_dag(
    inbox="orders",
    once_per="payload.order_id",
    max_unfinished_runs=50,
    dead_letter_dag_id="dead_order",
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
    params={"rate": 2},
    example={"order_id": "7", "total": 20},
    tags=["example"],
)
def handle_order(message: Message[Order]):
    """Charge an order, then ship it."""
    ship(message["payload"]["order_id"], charge(message))
