"""One DAG for each operator that makes a single call of the service. Arguments come with the run's conf."""

from airflow.sdk import DAG, task

from airflow_provider_workflow.operators.manage_inbox import WorkflowPauseInboxOperator
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator

TEXT = {"description": "{{ dag_run.conf['text'] }}"}
RETRIES = {"retries": 2, "retry_delay": 2}

with DAG("guesser", schedule=None):
    WorkflowGuessOperator(task_id="work", **TEXT, **RETRIES)

with DAG("pauser", schedule=None):
    WorkflowPauseInboxOperator(task_id="work", inbox="{{ dag_run.conf['inbox'] }}", **RETRIES)

with DAG("guess_of_a_task", schedule=None):

    @task
    def texts():
        return ["Send an email for every order", "Add a row for every payment"]

    WorkflowGuessOperator.partial(task_id="work").expand(description=texts())
