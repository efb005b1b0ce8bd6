"""Runs of messages, started as the dispatcher does."""

from __future__ import annotations

from airflow_provider_workflow.database.runs import DatabaseRuns
from airflow_provider_workflow.dispatch.runs import run_id_of
from tests.unit.cli.burying import CONNECTION_ID, message_of

PAYLOAD = "the payload of a message"


def start(message_id: str, inbox_id: str, note: str | None = None) -> str:
    """Start the run of a message, as the dispatcher does."""
    run_id = run_id_of(message_id, inbox_id)
    conf = {
        "connection_id": CONNECTION_ID,
        "inbox_id": inbox_id,
        "message": message_of(message_id, {"text": PAYLOAD}),
    }
    DatabaseRuns().start("handle", run_id, conf, note)
    return run_id
