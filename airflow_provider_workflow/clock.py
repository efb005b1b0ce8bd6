"""
The clock of the process: the time, functions that wait, and moments in fields of the service.

Airflow constructs hooks, operators and triggers from their arguments, so a clock cannot be passed to them.
All modules use the functions of this module instead, and a test replaces the clock with :func:`use`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar


class Clock:
    """The clock of this machine; the functions of this module call the methods of the same names."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def async_sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        # Not ``wait_for``: until Python 3.12 it loses a cancellation that comes with an answer.
        return asyncio.timeout(seconds)

    async def wait(self, futures: Collection[asyncio.Future[Any]], seconds: float) -> None:
        await asyncio.wait(futures, timeout=seconds)


AnyClock = TypeVar("AnyClock", bound=Clock)

_current = Clock()


@contextmanager
def use(other: AnyClock) -> Iterator[AnyClock]:
    """
    Replace the clock of the process, in all threads; for tests.

    A wait that has already begun continues with the former clock.
    """
    global _current
    before, _current = _current, other
    try:
        yield other
    finally:
        _current = before


def now() -> float:
    """Seconds since 1970, UTC. They can go back if the machine's clock is set."""
    return _current.now()


def monotonic() -> float:
    """Seconds since an arbitrary moment; they never go back."""
    return _current.monotonic()


def sleep(seconds: float) -> None:
    """
    Block this thread.

    :param seconds: 0 or more.
    """
    _current.sleep(seconds)


async def async_sleep(seconds: float) -> None:
    """
    Wait without blocking the event loop.

    :param seconds: 0 or more. Use ``asyncio.sleep(0)`` only to yield to other tasks.
    """
    await _current.async_sleep(seconds)


def timeout(seconds: float) -> AbstractAsyncContextManager[object]:
    """
    An asynchronous context manager that cancels its body after some time.

    :param seconds: 0 or more.
    :raises asyncio.TimeoutError: the time has elapsed; raised at the end of the context.
    """
    return _current.timeout(seconds)


async def wait(futures: Collection[asyncio.Future[Any]], seconds: float) -> None:
    """
    Wait until all futures are done, or for some time. Futures are not cancelled, and no exception is raised.

    :param futures: one or more.
    :param seconds: 0 or more.
    """
    await _current.wait(futures, seconds)


def moment_of(value: Any) -> datetime | None:
    """The moment in a field of the service, in UTC; None if it has none, or one before 1970."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the latter in the years 1 and 9999
        return None
    return moment if moment.year >= 1970 else None


def iso(moment: datetime | float) -> str:
    """
    A moment as text, in UTC, to the second.

    :param moment: or seconds since 1970.
    """
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def normal(value: Any) -> str | None:
    """The moment in a field of the service as text; None if it has none."""
    moment = moment_of(value)
    return None if moment is None else iso(moment)
