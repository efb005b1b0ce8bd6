"""Guess a workflow from a description, and list templates for the same apps."""

from datetime import datetime

from airflow.sdk import DAG

from airflow_provider_workflow.operators.guess import WorkflowGuessOperator
from airflow_provider_workflow.operators.templates import WorkflowTemplatesOperator

TEXT = "When an order arrives in the shop, add a row to the spreadsheet"

with DAG("suggest_workflows", schedule=None, start_date=datetime(2025, 1, 1), params={"text": TEXT}):
    WorkflowGuessOperator(task_id="guess", description="{{ params.text }}", on_rejected="skip")
    WorkflowTemplatesOperator(task_id="templates", apps=["shop", "spreadsheet"], limit=10)
