"""Guess a workflow from a description, and list templates for the same apps."""

from airflow.sdk import dag

from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator, WorkflowTemplatesOperator

TEXT = "When an order arrives in the shop, add a row to the spreadsheet"


# The param is a field of the form with which the DAG is started by hand.
@dag(schedule=None, params={"text": TEXT}, tags=["example", "workflow"], doc_md=__doc__)
def suggest_workflows():
    # The link "Open workflow editor" on the page of the task leads to the guessed workflow.
    WorkflowGuessOperator(task_id="guess", description="{{ params.text }}", on_rejected="skip")
    WorkflowTemplatesOperator(task_id="templates", apps=["shop", "spreadsheet"], limit=10)


suggest_workflows()
