"""The time of a watcher, which passes only while it waits, and what happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import groupby
from typing import Any

import pytest

from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import Workbench


class Over(BaseException):
    """The day is over: ends a watcher, which by itself goes on for ever."""


class Day:
    """
    What happens to a watcher while its time passes, and its event stream; the service's clock moves along.

    :param bench: the inbox ``orders``.
    :param fake_clock: moves only while the watcher waits.
    """

    def __init__(self, bench: Workbench, fake_clock: FakeClock) -> None:
        self.bench = bench
        self.clock = fake_clock
        self.listeners = 0
        self._rung = False
        self._told: list[float] = []
        fake_clock.moved_along.append(bench.service.store.clock)

    @property
    def second(self) -> float:
        """Seconds since the beginning."""
        return round(self.clock.elapsed, 6)

    @property
    def pages(self) -> list[int]:
        """How many pages of the list were read, each time that any was."""
        read = [each.at for each in self.bench.service.requests if each.operation == "list_messages"]
        return [len(list(group)) for _, group in groupby(read)]

    def at(self, second: float, act: Callable[[], Any], *, told: bool = False) -> None:
        """
        Let something happen.

        :param told: whether the event stream tells of it.
        """

        def happen() -> None:
            try:
                act()
            except Exception as error:
                # Not an exception that a watcher survives.
                raise Over(error) from error
            self._rung = self._rung or told

        moment = self.clock.start + second
        self.clock.at(moment, happen)
        if told:
            self._told.append(moment)

    def ends(self, second: float) -> None:
        """Let the day be over."""

        def end() -> None:
            raise Over

        self.clock.at(self.clock.start + second, end)

    def put(self, second: float, *ids: str, told: bool = True) -> None:
        """Let messages arrive."""
        self.at(second, lambda: self.bench.put(*ids), told=told)

    async def wait(self, seconds: float) -> bool:
        """Wait for the event stream."""
        now = self.clock.now()
        told = min((each for each in self._told if now < each <= now + seconds), default=now + seconds)
        if not self._rung:
            self.clock.set(told)
        rung, self._rung = self._rung, False
        await asyncio.sleep(0)
        return rung

    @asynccontextmanager
    async def listen(self, client: Any, inbox_id: str, streams: int) -> AsyncIterator[Day | None]:
        if not streams:
            yield None
            return
        self.listeners += 1
        try:
            yield self
        finally:
            self.listeners -= 1

    async def notices(self, trigger: Any, until: float) -> list[float]:
        """The seconds at which a trigger makes a notice, up to the end of the day."""
        return [second for second, _ in await self.events(trigger, until)]

    async def events(self, trigger: Any, until: float) -> list[tuple[float, Any]]:
        """The events of a trigger, each with the second of it."""
        self.ends(until)
        found: list[tuple[float, Any]] = []
        async with aclosing(trigger.run()) as events:
            try:
                async for event in events:
                    found.append((self.second, event.payload))
            except Over as over:
                if over.args:
                    raise
                return found
        raise AssertionError("the watcher ended by itself")


@pytest.fixture
def day(bench: Workbench, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Day:
    made = Day(bench, fake_clock)
    monkeypatch.setattr("airflow_provider_workflow.client.event_stream.listen", made.listen)
    return made
