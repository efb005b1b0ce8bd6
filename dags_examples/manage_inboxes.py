"""Set up an inbox, and pause it during the maintenance of its consumers."""

import logging

from airflow.sdk import dag, task

from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)

log = logging.getLogger(__name__)


@dag(schedule=None, tags=["example", "workflow"], doc_md=__doc__)
def set_up_tickets():
    # connection_id=... names the account at the app, if it needs one.
    WorkflowEnsureInboxOperator(
        task_id="ensure",
        name="tickets",
        app_key="tasks",
        action_key="new_ticket",
        inputs={"project": "support"},
    )


@dag(schedule=None, tags=["example", "workflow"], doc_md=__doc__)
def maintain_tickets():
    @task
    def maintain(inbox):
        log.info("Inbox %s is %s", inbox["name"], inbox["status"])

    # While an inbox is paused, the service drops its new events.
    pause = WorkflowPauseInboxOperator(task_id="pause", inbox="tickets")
    # all_done: it is resumed even if the maintenance failed.
    resume = WorkflowResumeInboxOperator(task_id="resume", inbox="tickets", trigger_rule="all_done")
    maintain(pause.output) >> resume


set_up_tickets()
maintain_tickets()
