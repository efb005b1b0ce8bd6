"""The documented import path of the rules for messages; the code is in :mod:`rules.messages`."""

from airflow_provider_workflow.emulator.rules.messages import Messages, Put

__all__ = ["Messages", "Put"]
