"""
The clock of the process: the time, functions that wait, and moments in fields of the service.

Airflow constructs hooks, operators and triggers from their arguments, so a clock cannot be passed to them.
Modules use the functions of this module instead, as ``clock.now()``, and a test replaces them with
:func:`use`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

Clock = TypeVar("Clock")


def now() -> float:
    """Seconds since 1970, UTC. They can go back if the machine's clock is set."""
    return time.time()


def monotonic() -> float:
    """Seconds since an arbitrary moment; they never go back."""
    return time.monotonic()


def cpu_seconds() -> float:
    """Seconds of CPU time that this thread has used; they stand still while it waits, or is stopped."""
    return time.thread_time()


def sleep(seconds: float) -> None:
    """Block this thread for 0 seconds or more."""
    time.sleep(seconds)


async def async_sleep(seconds: float) -> None:
    """Wait without blocking the event loop; ``asyncio.sleep(0)`` only yields to other tasks."""
    await asyncio.sleep(seconds)


def timeout(seconds: float) -> AbstractAsyncContextManager[object]:
    """
    An asynchronous context manager that cancels its body after some time.

    :raises asyncio.TimeoutError: the time has elapsed; raised at the end of the context.
    """
    # Not ``wait_for``: until Python 3.12 it loses a cancellation that comes with an answer.
    return asyncio.timeout(seconds)


async def ended(task: asyncio.Task[Any], *, canceling: bool = False) -> None:
    """
    Wait until a task has ended, even if the caller is cancelled meanwhile.

    :param canceling: whether to cancel the task, now and each time that the caller is cancelled.
    :raises asyncio.CancelledError: the caller was cancelled; raised after the task has ended.
    """
    if canceling:
        task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            # The task is not awaited directly: its cancellation must not look like one of the caller.
            await asyncio.wait({task})
        except asyncio.CancelledError as again:
            cancelled = again
            if canceling:
                task.cancel()
    if cancelled is not None:
        raise cancelled


@contextmanager
def use(other: Clock) -> Iterator[Clock]:
    """
    Replace the functions above, in all threads, by the methods that another clock has; for tests.

    A wait that has already begun continues with the former clock.
    """
    names = ("now", "monotonic", "cpu_seconds", "sleep", "async_sleep", "timeout")
    before = {name: globals()[name] for name in names}
    globals().update({name: getattr(other, name, function) for name, function in before.items()})
    try:
        yield other
    finally:
        globals().update(before)


def in_utc(moment: datetime) -> datetime:
    """
    A moment that the service sent, in UTC, which is also the zone of one without a zone.

    :raises OverflowError: it is not in the years 1 to 9999.
    """
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def moment_of(value: Any) -> datetime | None:
    """The moment in a field of the service, in UTC; None if it has none, or one before 1970."""
    if not isinstance(value, str):
        return None
    try:
        # RFC 3339 also allows a lower-case "t" and "z".
        moment = in_utc(datetime.fromisoformat(value.strip().upper()))
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
