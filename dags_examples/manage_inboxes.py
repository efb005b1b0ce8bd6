"""Set up an inbox, and pause it during the maintenance of its consumers."""

import logging
from datetime import datetime

from airflow.sdk import DAG, task

from airflow_provider_workflow.operators.inbox import (
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)

log = logging.getLogger(__name__)

with DAG("set_up_tickets", schedule=None, start_date=datetime(2025, 1, 1)):
    WorkflowEnsureInboxOperator(
        task_id="ensure",
        name="tickets",
        app_key="tasks",
        action_key="new_ticket",
        inputs={"project": "support"},
        deferrable=True,
        retries=3,
    )

with DAG("maintain_tickets", schedule=None, start_date=datetime(2025, 1, 1)):

    @task
    def maintain(inbox):
        log.info("Inbox %s is %s", inbox["name"], inbox["status"])

    pause = WorkflowPauseInboxOperator(task_id="pause", inbox="tickets", retries=3)
    resume = WorkflowResumeInboxOperator(
        task_id="resume", inbox="tickets", retries=3, trigger_rule="all_done"
    )
    maintain(pause.output) >> resume
