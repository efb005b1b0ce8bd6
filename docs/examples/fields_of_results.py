"""Create an inbox for the leads of a CRM, guess a workflow, and pass on single fields of both results."""

import logging
from datetime import datetime
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider_workflow.operators.manage_inbox import WorkflowEnsureInboxOperator
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator

log = logging.getLogger(__name__)

with DAG("set_up_leads", schedule=None, start_date=datetime(2025, 1, 1), tags=["example"]) as dag:
    ensure = WorkflowEnsureInboxOperator(
        task_id="ensure",
        name="leads",
        app_key="CrmAPI@1.2.0",  # a version of the app; "CrmAPI" or "CrmAPI@latest" for its newest one
        action_key="lead_created",
    )
    guess = WorkflowGuessOperator(task_id="guess", description="When a lead is created, send a mail to sales")

    @task
    def report(inbox_id, status, guessed):
        log.info("Inbox %s is %s; guessed: %s", inbox_id, status, guessed)

    ensure >> guess
    # Any: Airflow's types do not know that an output has an index.
    inbox: Any = ensure.output
    guessed: Any = guess.output
    report(inbox["id"], inbox["status"], guessed["title"])
