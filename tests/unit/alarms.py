"""The alarm for quarantined messages, and the Variables in which processes share it."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.hooks import user_tokens
from airflow_provider_workflow.process_state import reset as another_process
from tests.unit.workbench import INBOX, Workbench

__all__ = ["WHERE", "Variables", "alarms", "another_process", "crash", "variables"]

WHERE = {"inbox": INBOX, "conn_id": "workflow_default"}


class Variables:
    """
    Airflow's Variables.

    :param fault: raised instead of reading or writing.
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.calls: list[str] = []
        self.fault: Exception | None = None

    def read(self, name: str) -> str | None:
        self.calls.append("read")
        if self.fault is not None:
            raise self.fault
        return self.values.get(name)

    def write(self, name: str, value: str, description: str) -> None:
        self.calls.append("write")
        if self.fault is not None:
            raise self.fault
        self.values[name] = value


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    fake = Variables()
    monkeypatch.setattr(user_tokens, "read_variable", fake.read)
    monkeypatch.setattr(user_tokens, "write_variable", fake.write)
    another_process()
    return fake


def crash(bench: Workbench, clock: ManualClock, *ids: str) -> None:
    """Let messages come, and everybody who leases them die."""
    bench.put(*ids)
    for _ in range(5):
        bench.service.store.leases.lease(bench.inbox_id, 60, 100)
        clock.advance(61)
    assert bench.service.summary(INBOX)["counts"]["quarantined"] >= len(ids)


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
