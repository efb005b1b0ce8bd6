"""Guesses of one text, which comes with the run's conf, and of each text that a task returns."""

from airflow.sdk import DAG, task

from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator

with DAG("guesser", schedule=None):
    WorkflowGuessOperator(task_id="work", description="{{ dag_run.conf['text'] }}")

with DAG("guess_of_a_task", schedule=None):

    @task
    def texts():
        return ["Send an email for every order", "Add a row for every payment"]

    WorkflowGuessOperator.partial(task_id="work").expand(description=texts())
