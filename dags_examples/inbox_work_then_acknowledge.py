"""Wait for messages, work on them, and acknowledge them only after the work succeeded."""

import logging

from airflow.sdk import dag, task

from airflow_provider_workflow.operators.inbox import WorkflowAcknowledgeOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

log = logging.getLogger(__name__)


@dag(schedule=None, tags=["example", "workflow"], doc_md=__doc__)
def work_then_acknowledge():
    wait = WorkflowInboxSensor(
        task_id="wait",
        inbox="invoices",
        acknowledge="manual",
        lease_seconds=1800,  # longer than the work takes; after it, messages are redelivered
        deferrable=True,
    )

    @task
    def work(lease):
        for message in lease["messages"]:
            log.info("Invoice %s: %s", message["id"], message["payload"])

    # If the work fails, nothing is acknowledged. Work on a message may be done twice: make it idempotent.
    work(wait.output) >> WorkflowAcknowledgeOperator(task_id="acknowledge", lease=wait.output)


work_then_acknowledge()
