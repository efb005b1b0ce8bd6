"""The page "Inboxes" of Airflow's UI; ``airflow.plugins`` in ``pyproject.toml`` names its plugin here."""

from airflow_provider_workflow.plugin.airflow_plugin import WorkflowPlugin

__all__ = ["WorkflowPlugin"]
