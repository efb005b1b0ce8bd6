"""Add up all invoices that wait now in one task; acknowledge them after the next one has stored the sum."""

import logging
from datetime import datetime

from airflow.sdk import DAG, task

from airflow_provider_workflow.client.errors import InboxPausedError
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.operators.inbox import WorkflowAcknowledgeOperator

log = logging.getLogger(__name__)

with DAG(
    "sum_invoices", schedule="@daily", start_date=datetime(2025, 1, 1), catchup=False, tags=["example"]
) as dag:

    @task
    def lease_all():
        hook, leases = WorkflowHook(), []
        inbox_id = hook.inbox_id("invoices")
        # One lease has at most 100 messages. An hour is the longest lease.
        try:
            while (answer := hook.lease_messages(inbox_id, lease_limit=100, lease_seconds=3600))["results"]:
                lease = {"inbox_id": inbox_id, "lease_id": answer["lease_id"], "messages": answer["results"]}
                leases.append(lease)
        except InboxPausedError:  # no message is left: an error only if there was none at all
            if not leases:
                raise
        return leases

    @task(retries=3)
    def add_up(leases):
        return sum(message["payload"]["amount"] for lease in leases for message in lease["messages"])

    @task(retries=3)
    def store(total):
        log.info("Total of the day: %s", total)

    leases = lease_all()
    # One acknowledgement for each lease; none, and a skipped task, if the inbox was empty.
    acknowledge = WorkflowAcknowledgeOperator.partial(task_id="acknowledge").expand(lease=leases)
    store(add_up(leases)) >> acknowledge
