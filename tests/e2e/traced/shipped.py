"""A run for each message, in the trace that the message brings or else in that of its listener."""

from __future__ import annotations

from airflow.sdk import task

from airflow_provider_workflow.decorators import inbox_dag


@inbox_dag(inbox="shipments", trace_context="payload.traceparent")
@task
def shipped(message):
    return message["id"]
