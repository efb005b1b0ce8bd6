"""The alarm for quarantined messages."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.pytest_plugin import reset as another_process
from tests.unit.workbench import INBOX, Workbench

__all__ = ["WHERE", "alarms", "another_process", "crash"]

WHERE = {"inbox": INBOX, "conn_id": "workflow_default"}


def crash(bench: Workbench, clock: ManualClock, *ids: str) -> None:
    """Let messages come, and everybody who leases them die."""
    bench.put(*ids)
    for _ in range(5):
        bench.service.store.messages.lease(bench.inbox_id, 60, 100)
        clock.advance(61)
    assert bench.service.summary(INBOX)["counts"]["quarantined"] >= len(ids)


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
