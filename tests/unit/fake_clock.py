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
"""The first time of a clock: a round number of seconds, so that sums of pauses stay exact."""
QUIET_TURNS = 30
"""The number of turns of an event loop after which every task that could go on has done so."""


def nothing() -> None:
    """Do nothing, for a sleep in which nothing happens."""


@dataclass(order=True)
class Timer:
    """
    A call that is due at a moment.

    :param number: order among timers of the same moment: the one that was set first comes first.
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
        """Called in each sleep with its seconds. In an event loop it may return an awaitable."""
        self.moved_along: list[Any] = []
        """Clocks that are moved together with this one."""
        self.cpu = 0.0
        """CPU time in seconds, which a test sets."""
        self.busy = 0
        """The number of calls at work outside of the event loop; ``settle()`` waits for them."""
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
        Call a function when this clock reaches a moment, in a sleep or when a test moves it.

        :param moment: seconds of this clock; if it is not in the future, the function is called at once.
        """
        timer = Timer(moment, next(self._number), act)
        if moment <= self._time:
            act()
        else:
            heapq.heappush(self._timers, timer)
        return timer

    def then(self, *acts: Callable[[], Any]) -> None:
        """Call one of these functions in each of the next sleeps, in this order."""
        remaining_acts = list(acts)
        self.meanwhile = lambda seconds: remaining_acts.pop(0)() if remaining_acts else None

    def advance(self, seconds: float) -> None:
        """Move the clock at once; everything that becomes due happens at its time."""
        end = self._time + seconds
        while timer := self._next_until(end):
            self._act_on(timer)
        # A call may have moved the clock further.
        self._move_to(end if seconds < 0 else max(end, self._time))

    def skip(self) -> None:
        """Move the clock to the next timer, and let it act."""
        if timer := self._next_until(math.inf):
            self._act_on(timer)

    # Several tasks

    def hold(self) -> None:
        """From now on a sleep in an event loop ends only when a test lets enough time pass."""
        self._held = True

    async def settle(self) -> None:
        """Let all tasks go on until each of them sleeps or waits."""
        quiet = 0
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0.001 if self.busy else 0)
            quiet = 0 if self.busy else quiet + 1

    async def elapse(self, seconds: float) -> None:
        """Let time pass, with every task acting at its time."""
        end = self._time + seconds
        await self.settle()
        while timer := self._next_until(end):
            self._act_on(timer)
            await self.settle()
        self._move_to(max(end, self._time))

    def counting(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """The same function, as a call that works outside of the event loop: ``settle()`` waits for it."""

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
    """An event; waiting for it moves the clock from timer to timer."""

    def __init__(self, fake_clock: FakeClock) -> None:
        super().__init__()
        self.clock = fake_clock

    async def wait(self) -> Literal[True]:
        while not self.is_set():
            await asyncio.sleep(0)
            self.clock.skip()
        return True
