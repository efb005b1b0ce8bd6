"""
The clock of the process: the time, and functions that wait.

Airflow constructs hooks, operators and triggers from their arguments, so a clock cannot be passed to them.
Modules use the functions of this module instead, as ``clock.now()``, and a test replaces them with
:func:`use`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

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
