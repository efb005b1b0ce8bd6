"""Decorators for DAG files: ``inbox_dag`` and ``@task.workflow_inbox``."""

# Not on demand: Python would return the module of the same name, once a second DAG file imports it.
from airflow_provider_workflow.decorators.inbox_dag import inbox_dag

__all__ = ["inbox_dag"]
