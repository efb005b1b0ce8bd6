"""One DAG for each operator that makes a single call of the service. Arguments come with the run's conf."""

from airflow.sdk import DAG, task

from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowDeleteInboxOperator,
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)
from airflow_provider_workflow.operators.workflows import (
    WorkflowGuessOperator,
    WorkflowTemplatesOperator,
    WorkflowUnenrollOperator,
)

INBOX = "{{ dag_run.conf['inbox'] }}"
TEXT = "{{ dag_run.conf['text'] }}"
SUBSCRIBED = {
    "name": INBOX,
    "app_key": "shop",
    "action_key": "{{ dag_run.conf.get('action_key', 'new_order') }}",
    "inputs": {"region": "{{ dag_run.conf.get('region', 'eu') }}"},
}
RETRIES = {"retries": 2, "retry_delay": 2}

WORK = {
    "guesser": (WorkflowGuessOperator, {"description": TEXT, **RETRIES}),
    "skipping_guesser": (WorkflowGuessOperator, {"description": TEXT, "on_rejected": "skip"}),
    "template_lister": (
        WorkflowTemplatesOperator,
        {"apps": ["shop"], "limit": "{{ dag_run.conf['limit'] }}"},
    ),
    "ensurer": (WorkflowEnsureInboxOperator, {**SUBSCRIBED, **RETRIES}),
    "impatient_ensurer": (WorkflowEnsureInboxOperator, {**SUBSCRIBED, "timeout": 5}),
    "recreator": (WorkflowEnsureInboxOperator, {**SUBSCRIBED, "recreate_failed": True}),
    "pauser": (WorkflowPauseInboxOperator, {"inbox": INBOX, **RETRIES}),
    "resumer": (WorkflowResumeInboxOperator, {"inbox": INBOX, **RETRIES}),
    "deleter": (WorkflowDeleteInboxOperator, {"inbox": INBOX, **RETRIES}),
    "unenroller": (WorkflowUnenrollOperator, {"enrollment_id": "{{ dag_run.conf['enrollment'] }}"}),
}

for dag_id, (operator, arguments) in WORK.items():
    with DAG(dag_id, schedule=None, max_active_runs=20):
        operator(task_id="work", **arguments)


with DAG("guess_of_a_task", schedule=None):

    @task
    def texts():
        return ["Send an email for every order", "Add a row for every payment"]

    WorkflowGuessOperator.partial(task_id="work").expand(description=texts())
