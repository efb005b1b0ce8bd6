"""The fake event loop and bell, in the places of the trigger's own."""

from __future__ import annotations

import pytest

from tests.unit.counted import counted  # noqa: F401
from tests.unit.triggers.clockwork import clockwork  # noqa: F401
from tests.unit.triggers.day import day  # noqa: F401
from tests.unit.triggers.loops import FakeAsyncio, FakeBell
from tests.unit.triggers.triggerer import triggerer  # noqa: F401


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> FakeAsyncio:
    fake = FakeAsyncio()
    monkeypatch.setattr("airflow_provider_workflow.triggers.handing_over.asyncio", fake)
    monkeypatch.setattr("airflow_provider_workflow.triggers.listening.asyncio", fake)
    monkeypatch.setattr("airflow_provider_workflow.triggers.listening.time", fake)
    return fake


@pytest.fixture
def bell(loop: FakeAsyncio, monkeypatch: pytest.MonkeyPatch) -> FakeBell:
    fake = FakeBell()
    monkeypatch.setattr("airflow_provider_workflow.client.events.listen", fake.listen)
    return fake
