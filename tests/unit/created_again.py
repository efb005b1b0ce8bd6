"""An inbox that was deleted, and is created again under its name."""

from __future__ import annotations

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.workbench import INBOX


def put_in_a_new_inbox(service: EmulatorServer, *ids: str) -> str:
    """Create the inbox again, with these messages; its id."""
    inbox_id = service.open_inbox(INBOX)
    service.put(INBOX, *({"n": each} for each in ids), ids=list(ids))
    return inbox_id
