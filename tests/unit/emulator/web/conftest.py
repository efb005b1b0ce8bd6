"""An inbox to lease from."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer


@pytest.fixture
def lease_path(emulator: EmulatorServer) -> str:
    """Where to lease from an inbox that holds two messages."""
    emulator.put("orders", {"n": 1}, {"n": 2})
    return f"/inboxes/{emulator.open_inbox('orders')}/messages/lease"
