"""Each order is charged, then shipped; one that cannot start its run starts one of "dead_order"."""

import logging
from datetime import timedelta

from airflow.sdk import task

from airflow_provider_workflow.decorators import inbox_dag

log = logging.getLogger(__name__)


@task
def charge(message, params=None):
    return message["payload"]["total"] * params["rate"]


@task
def ship(order_id, price):
    log.info("Order %s is shipped for %s", order_id, price)


@inbox_dag(
    inbox="orders",
    max_unfinished_runs=50,
    dead_letter_dag_id="dead_order",
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
    params={"rate": 2},
    example={"total": 20},
)
def handle_order(message):
    """Charge an order, then ship it."""
    ship(message["id"], charge(message))
