"""The one clock of the unit tests: no test waits for real time, and none replaces ``time`` or ``asyncio``."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import itertools
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

START = 1_000_000.0
"""What a clock shows at first. A round number of seconds, so that sums of pauses stay exact."""
QUIET_TURNS = 30
"""Turns of an event loop after which all that could go on has gone on."""


def nothing() -> None:
    """What happens in a sleep in which nothing does."""


@dataclass(order=True)
class Timer:
    """
    Something that is due at a moment.

    :param number: of two that are due at the same moment the one that was set first comes first.
    """

    moment: float
    number: int
    act: Callable[[], Any] | None = field(compare=False)

    def cancel(self) -> None:
        self.act = None


class FakeClock:
    """
    A clock that stands still until somebody sleeps, or a test advances it.

    A sleep takes no real time: it moves the clock, in a thread as in an event loop. That is enough for a
    single task. If several tasks wait side by side, a test calls ``hold()`` and lets time pass with
    ``elapse()``; each task then wakes up in its turn.

    A sleep of 0 s only gives other tasks their turn: it is not recorded, and nothing happens in it.

    :param start: the first time that it shows, in seconds.
    """

    def __init__(self, start: float = START) -> None:
        self.start = start
        self.slept: list[float] = []
        """The seconds of each sleep, in the order in which they began."""
        self.meanwhile: Callable[[float], Any] = lambda seconds: None
        """Is called in each sleep, with its seconds; in an event loop what it returns may be awaited."""
        self.moved_along: list[Any] = []
        """Clocks that move by as much as this one."""
        self.cpu = 0.0
        """Seconds of CPU time that a test lets pass."""
        self.busy = 0
        """How many are at work outside of the event loop; while they are nothing settles."""
        self._time = start
        self._held = False
        self._timers: list[Timer] = []
        self._number = itertools.count()

    # As the package sees it

    def now(self) -> float:
        return self._time

    def monotonic(self) -> float:
        return self._time

    def cpu_seconds(self) -> float:
        return self.cpu

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.slept.append(seconds)
            self.advance(seconds)
            self.meanwhile(seconds)

    async def async_sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.slept.append(seconds)
            if self._held:
                await self._elapsed(seconds)
            else:
                self.advance(seconds)
            happening = self.meanwhile(seconds)
            if inspect.isawaitable(happening):
                await happening
        await asyncio.sleep(0)

    @asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncIterator[None]:
        # As ``asyncio.timeout`` does it.
        loop, over = asyncio.get_running_loop(), False
        task: Any = asyncio.current_task()
        before = task.cancelling()
        calls: list[asyncio.Handle] = []

        def end() -> None:
            nonlocal over
            over = True
            task.cancel()

        timer = self.at(self._time + seconds, lambda: calls.append(loop.call_soon(end)))
        try:
            yield
        except asyncio.CancelledError:
            if over and task.uncancel() <= before:
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()
            for call in calls:
                call.cancel()

    # As a test moves it

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._time - self.start

    def at(self, moment: float, act: Callable[[], Any]) -> Timer:
        """
        Let something happen when this clock gets there: in the sleep that moves it, or where a test does.

        :param moment: seconds of this clock; what is due already happens at once.
        """
        timer = Timer(moment, next(self._number), act)
        if moment <= self._time:
            act()
        else:
            heapq.heappush(self._timers, timer)
        return timer

    def then(self, *acts: Callable[[], Any]) -> None:
        """Let one of these happen in each sleep, in this order, and nothing in those that follow."""
        remaining_acts = list(acts)
        self.meanwhile = lambda seconds: remaining_acts.pop(0)() if remaining_acts else None

    def advance(self, seconds: float) -> None:
        """Move the clock at once; whatever is due meanwhile happens, each at its time."""
        end = self._time + seconds
        while timer := self._next_until(end):
            self._act_on(timer)
        # Somebody may have moved it further meanwhile.
        self._move_to(end if seconds < 0 else max(end, self._time))

    def skip(self) -> None:
        """Move the clock to what is due next, and let it happen."""
        if timer := self._next_until(math.inf):
            self._act_on(timer)

    # Several tasks

    def hold(self) -> None:
        """From now on a sleep in an event loop ends only when a test lets its time pass."""
        self._held = True

    async def settle(self) -> None:
        """Let all tasks go on until each of them sleeps, or waits for something else."""
        quiet = 0
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0.001 if self.busy else 0)
            quiet = 0 if self.busy else quiet + 1

    async def elapse(self, seconds: float) -> None:
        """Move the clock, and let every task act at its time."""
        end = self._time + seconds
        await self.settle()
        while timer := self._next_until(end):
            self._act_on(timer)
            await self.settle()
        self._move_to(max(end, self._time))

    def counting(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """The same function, during which nothing settles: it waits for what is outside of the event loop."""

        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.busy += 1
            try:
                return await function(*args, **kwargs)
            finally:
                self.busy -= 1

        return counted

    def _next_until(self, end: float) -> Timer | None:
        while self._timers and self._timers[0].moment <= end:
            timer = heapq.heappop(self._timers)
            if timer.act is not None:
                return timer
        return None

    def _act_on(self, timer: Timer) -> None:
        self._move_to(max(timer.moment, self._time))
        if timer.act is not None:
            timer.act()

    def _move_to(self, moment: float) -> None:
        seconds, self._time = moment - self._time, moment
        for clock in self.moved_along:
            clock.advance(seconds)

    async def _elapsed(self, seconds: float) -> None:
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.at(self._time + seconds, lambda: sleeper.done() or sleeper.set_result(None))
        await sleeper


class TimedEvent(asyncio.Event):
    """An event of which each wait lets the time of a clock pass."""

    def __init__(self, fake_clock: FakeClock) -> None:
        super().__init__()
        self.clock = fake_clock

    async def wait(self) -> Literal[True]:
        while not self.is_set():
            await asyncio.sleep(0)
            self.clock.skip()
        return True
