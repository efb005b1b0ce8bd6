"""
The time: what it is, and how to wait.

Airflow makes hooks, operators and triggers from their arguments, so no constructor can be given a clock. The
process has one instead. Every module asks it through the functions of this one, and a test replaces it as a
whole with :func:`use`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

# Not ``asyncio.wait_for``: until Python 3.12 it loses a cancellation that comes with an answer, and makes a
# task.
if sys.version_info >= (3, 11):
    from asyncio import timeout as _timeout
else:
    from async_timeout import timeout as _timeout

__all__ = ["Clock", "async_sleep", "monotonic", "now", "sleep", "timeout", "use", "wait"]


class Clock:
    """The clock of this machine; its methods are what the functions of the same names call."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def async_sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        limit: AbstractAsyncContextManager[object] = _timeout(seconds)
        return limit

    async def wait(self, futures: Collection[asyncio.Future[Any]], seconds: float) -> None:
        await asyncio.wait(futures, timeout=seconds)


AnyClock = TypeVar("AnyClock", bound=Clock)

_current = Clock()


@contextmanager
def use(other: AnyClock) -> Iterator[AnyClock]:
    """
    Let the whole process, all of its threads, ask another clock; for tests.

    What began to wait before goes on to wait by the clock of then.
    """
    global _current
    before, _current = _current, other
    try:
        yield other
    finally:
        _current = before


def now() -> float:
    """Seconds since 1970, UTC. They may go back, when the machine's clock is set."""
    return _current.now()


def monotonic() -> float:
    """Seconds that only go forward, from a beginning that means nothing."""
    return _current.monotonic()


def sleep(seconds: float) -> None:
    """
    Block this thread.

    :param seconds: 0 or more.
    """
    _current.sleep(seconds)


async def async_sleep(seconds: float) -> None:
    """
    Let the event loop do something else.

    :param seconds: 0 or more. To give others their turn, and no more, say ``asyncio.sleep(0)``.
    """
    await _current.async_sleep(seconds)


def timeout(seconds: float) -> AbstractAsyncContextManager[object]:
    """
    An asynchronous context that ends after some time: what is awaited in it is cancelled then.

    :param seconds: 0 or more.
    :raises asyncio.TimeoutError: the time is over; raised where the context ends.
    """
    return _current.timeout(seconds)


async def wait(futures: Collection[asyncio.Future[Any]], seconds: float) -> None:
    """
    Wait until all futures are done, or for some time. None of them is cancelled, none raises here.

    :param futures: one or more.
    :param seconds: 0 or more.
    """
    await _current.wait(futures, seconds)
