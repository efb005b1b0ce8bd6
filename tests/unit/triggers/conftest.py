"""The wake-ups of a trigger, and the clock of several that wait side by side."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_provider_workflow.client import over_aiohttp
from tests.unit.counted import counted  # noqa: F401
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.day import day  # noqa: F401
from tests.unit.triggers.loops import FakeWakeUps
from tests.unit.triggers.triggerer import triggerer  # noqa: F401
from tests.unit.workbench import Workbench


@pytest.fixture
def wake_ups(fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> FakeWakeUps:
    fake = FakeWakeUps()
    monkeypatch.setattr("airflow_provider_workflow.client.event_stream.listen", fake.listen)
    return fake


@pytest.fixture
async def held_clock(bench: Workbench, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """
    The clock of tasks that wait side by side, each until the test lets its time pass.

    Meanwhile it waits for the service, which is a real one, and for threads.
    """
    fake_clock.hold()
    monkeypatch.setattr(over_aiohttp, "exchange", fake_clock.counting(over_aiohttp.exchange))
    loop = asyncio.get_running_loop()
    begin = loop.run_in_executor

    def run_in_executor(*given: Any) -> Any:
        future = begin(*given)
        fake_clock.busy += 1
        future.add_done_callback(lambda _: setattr(fake_clock, "busy", fake_clock.busy - 1))
        return future

    monkeypatch.setattr(loop, "run_in_executor", run_in_executor)
    monkeypatch.setenv("AIRFLOW_DISABLE_GREENBACK_PORTAL", "true")
    return fake_clock
