"""The time of a watcher, which passes only while it waits, and what happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from airflow_provider_workflow import quarantine
from tests.unit.workbench import Workbench


class Over(BaseException):
    """The day is over: ends a watcher, which by itself goes on for ever."""


class Day:
    """
    Stands for ``asyncio``, ``time`` and the event stream of a watcher, and moves the emulator's clock.

    :param bench: the inbox ``orders``.
    """

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.now = 0.0
        self.ends_at = 0.0
        self.pages: list[int] = []
        self.slept: list[float] = []
        self.listeners = 0
        self._pages_before = 0
        self._agenda: list[tuple[float, Callable[[], Any], bool]] = []
        self._rung = False

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def at(self, second: float, act: Callable[[], Any], *, told: bool = False) -> None:
        """
        Let something happen.

        :param told: whether the event stream tells of it.
        """
        self._agenda.append((second, act, told))
        self._agenda.sort(key=lambda each: each[0])

    def put(self, second: float, *ids: str, told: bool = True) -> None:
        """Let messages arrive."""
        self.at(second, lambda: self.bench.put(*ids), told=told)

    def take(self, second: float, seconds: int = 300, acknowledge: bool = True) -> None:
        """Let somebody lease all that is there."""

        def take() -> None:
            leases = self.bench.service.store.leases
            while lease_id := leases.lease(self.bench.inbox_id, seconds, 100)["lease_id"]:
                if acknowledge:
                    leases.acknowledge(self.bench.inbox_id, lease_id)

        self.at(second, take)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._note_pages()
        self._pass_until(self.now + seconds)
        await asyncio.sleep(0)

    async def wait(self, seconds: float) -> bool:
        """Wait for the event stream."""
        self._note_pages()
        end = self.now + seconds
        told = next((each for each, _, told in self._agenda if told and each <= end), None)
        if not self._rung:
            self._pass_until(end if told is None else told)
        rung, self._rung = self._rung, False
        await asyncio.sleep(0)
        return rung

    @asynccontextmanager
    async def listen(self, client: Any, inbox_id: str, streams: int) -> AsyncIterator[Day]:
        self.listeners += 1
        try:
            yield self
        finally:
            self.listeners -= 1

    def _note_pages(self) -> None:
        """Note how many pages were read since the last wait."""
        read = self.bench.service.count("list_messages")
        if read > self._pages_before:
            self.pages.append(read - self._pages_before)
        self._pages_before = read

    def _pass_until(self, moment: float) -> None:
        moment = max(moment, self.now)
        while self._agenda and self._agenda[0][0] <= min(moment, self.ends_at):
            second, act, told = self._agenda.pop(0)
            self._move(max(second, self.now))
            try:
                act()
            except Exception as error:
                # Not an exception that a watcher outlasts.
                raise Over(error) from error
            self._rung = self._rung or told
        self._move(min(moment, self.ends_at))
        if self.now >= self.ends_at:
            raise Over

    def _move(self, moment: float) -> None:
        self.bench.service.store.clock.advance(moment - self.now)
        self.now = moment

    async def rings(self, trigger: Any, until: float) -> list[float]:
        """The seconds at which a trigger rings, up to the end of the day."""
        return [second for second, _ in await self.events(trigger, until)]

    async def events(self, trigger: Any, until: float) -> list[tuple[float, Any]]:
        """The events of a trigger, each with the second of it."""
        self.ends_at = until
        found: list[tuple[float, Any]] = []
        async with aclosing(trigger.run()) as events:
            try:
                async for event in events:
                    found.append((self.now, event.payload))
            except Over as over:
                if over.args:
                    raise
                # What is reported is, beside the loop, in the time of this machine.
                await asyncio.gather(*quarantine._alarms)
                return found
        raise AssertionError("the watcher ended by itself")


@pytest.fixture
def day(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Day:
    fake = Day(bench)
    for module in ("ringing", "listening"):
        monkeypatch.setattr(f"airflow_provider_workflow.triggers.{module}.asyncio", fake)
    for module in ("ringing", "patience", "listening"):
        monkeypatch.setattr(f"airflow_provider_workflow.triggers.{module}.time", fake)
    monkeypatch.setattr("airflow_provider_workflow.client.events.listen", fake.listen)
    return fake
