"""The thread pool of a session, whose thread is a greenlet: it stands for ``concurrent.futures``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from typing import Any

from greenlet import getcurrent

from tests.simulation.scheduler import Killed, Scheduler, Strand


class SimulatedFuture:
    """The result of a call that the thread makes."""

    def __init__(self, scheduler: Scheduler, call: Callable[[], Any]) -> None:
        self.scheduler = scheduler
        self.call = call
        self.is_done = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.waiting: list[Strand] = []

    def run(self) -> None:
        """Make the call."""
        try:
            self.value = self.call()
        except Killed:
            raise
        except BaseException as error:
            self.error = error
        self._finish()

    def cancel(self) -> None:
        self.error = CancelledError()
        self._finish()

    def _finish(self) -> None:
        self.is_done = True
        for strand in self.waiting:
            self.scheduler.wake(strand, self.scheduler.now)

    # As the session sees it

    def done(self) -> bool:
        return self.is_done

    def result(self) -> Any:
        wait_for(self.scheduler, [self])
        if self.error is not None:
            raise self.error
        return self.value

    def exception(self) -> BaseException | None:
        wait_for(self.scheduler, [self])
        return self.error


def wait_for(scheduler: Scheduler, futures: Iterable[SimulatedFuture], seconds: float | None = None) -> None:
    """Wait until all calls are made, or for some time."""
    strand: Any = getcurrent()
    futures = list(futures)
    if strand.process.dead:
        raise Killed
    end = None if seconds is None else scheduler.now + seconds
    if end is not None and any(not each.is_done for each in futures):
        scheduler.wake(strand, end)
    for each in futures:
        while not each.is_done and (end is None or scheduler.now < end):
            each.waiting.append(strand)
            if end is not None:
                scheduler.wake(strand, end)
            scheduler.block(strand)


class SimulatedExecutor:
    """A pool of one thread in the running process."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        main: Any = getcurrent()
        self.process = main.process
        self._queued: deque[SimulatedFuture] = deque()
        self._strand: Strand | None = None

    def submit(self, call: Callable[..., Any], *given: Any, **named: Any) -> SimulatedFuture:
        if self.process.dead:
            raise Killed
        future = SimulatedFuture(self.scheduler, lambda: call(*given, **named))
        self._queued.append(future)
        self.process.pending += 1
        if self._strand is None:
            self._strand = Strand(self.process, self._work, self.scheduler.hub)
            self.scheduler.wake(self._strand, self.scheduler.now)
        if self.scheduler.random.random() < 0.3:
            # The thread begins before the caller goes on.
            self.scheduler.give_way()
        return future

    def _work(self) -> None:
        try:
            while self._queued:
                self._queued.popleft().run()
                self.process.pending -= 1
        except Killed:
            return
        self._strand = None

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        if cancel_futures:
            while self._queued:
                self._queued.popleft().cancel()
