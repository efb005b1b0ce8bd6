"""A refund whose payload does not fit starts a run of "report_bad_refund", and none of "pay_refund"."""

import logging

from airflow.sdk import dag, task
from typing_extensions import TypedDict

from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.types import Message

log = logging.getLogger(__name__)


class Refund(TypedDict):
    order_id: str
    total: float


@inbox_dag(
    inbox="refunds",
    dead_letter_dag_id="report_bad_refund",
    dead_letter_after=1,  # at once: what does not fit now does not fit later
    tags=["example"],
)
@task(retries=3)
def pay_refund(message: Message[Refund]):
    log.info("Order %s gets %s back", message["payload"]["order_id"], message["payload"]["total"])


@dag(schedule=None, tags=["example", "workflow"], doc_md=__doc__)
def report_bad_refund():
    @task(retries=3)
    def report(dag_run=None):  # replace it with a notifier, such as SmtpNotifier
        log.error("Message %s: %s", dag_run.conf["message_id"], dag_run.conf["cause"])

    report()


report_bad_refund()
