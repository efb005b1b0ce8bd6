"""A clock of triggers that is moved by hand, and waits until everything has had its turn."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_workflow.client import client, over_aiohttp
from tests.unit.workbench import Workbench

MODULES = ("acknowledging", "custody", "listening", "patience", "poller", "producer")


class Clockwork:
    """Stands for ``asyncio`` and ``time`` of the modules; sleeps end when the test moves the clock."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.busy = 0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = itertools.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def time(self) -> float:
        return self.now

    monotonic = time

    async def to_thread(self, function: Callable[..., Any], *given: Any) -> Any:
        """Nothing is settled meanwhile: large answers are read beside the loop."""
        return await self.counting(asyncio.to_thread)(function, *given)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._number), sleeper))
        await sleeper

    async def settle(self) -> None:
        """Let all go on until everybody sleeps or waits for Airflow."""
        quiet = 0
        while quiet < 30:
            await asyncio.sleep(0.001 if self.busy else 0)
            quiet = 0 if self.busy else quiet + 1

    async def advance(self, seconds: float) -> None:
        """Move the clock, letting everybody act at his time."""
        end = self.now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            moment, _, sleeper = heapq.heappop(self._sleepers)
            if not sleeper.done():
                self.now = max(self.now, moment)
                sleeper.set_result(None)
                await self.settle()
        self.now = end

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function; while it is awaited nothing is settled."""

        async def counted(*given: Any, **named: Any) -> Any:
            self.busy += 1
            try:
                return await function(*given, **named)
            finally:
                self.busy -= 1

        return counted


@pytest.fixture
def clockwork(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Clockwork:
    clock = Clockwork()
    for module in MODULES:
        for name in ("asyncio", "time"):
            with contextlib.suppress(AttributeError):
                monkeypatch.setattr(f"airflow_provider_workflow.triggers.{module}.{name}", clock)
    monkeypatch.setattr("airflow_provider_workflow.leases.time", clock)
    monkeypatch.setattr(over_aiohttp, "exchange", clock.counting(over_aiohttp.exchange))
    monkeypatch.setattr(client, "asyncio", clock)
    connection = "airflow.providers.common.compat.connection.get_async_connection"
    from airflow.providers.common.compat.connection import get_async_connection

    monkeypatch.setattr(connection, clock.counting(get_async_connection))
    monkeypatch.setattr("airflow_provider_workflow.triggers.emitted._remembered", {})
    monkeypatch.setenv("AIRFLOW_DISABLE_GREENBACK_PORTAL", "true")
    return clock
