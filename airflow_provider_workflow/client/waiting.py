"""Waiting in an event loop that misses no cancellation, and finishes what nobody could repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def carry_through(work: Coroutine[Any, Any, T]) -> T:
    """
    Await something to its end. Where the caller is cancelled, however often, it ends first.

    Airflow cancels a trigger about once a second until it has ended, so one delay is not enough.
    """
    task = asyncio.ensure_future(work)
    try:
        await _ended(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()  # seen: the caller has left
        raise
    return task.result()


async def end(task: asyncio.Task[None]) -> None:
    """
    Cancel a task, and wait until it has ended, though the caller is cancelled meanwhile.

    :raises asyncio.CancelledError: the caller was.
    """
    task.cancel()
    await _ended(task, insisting=True)


async def _ended(task: asyncio.Task[Any], *, insisting: bool = False) -> None:
    """
    Wait for a task.

    :param insisting: cancel it each time that the caller is.
    :raises asyncio.CancelledError: the caller was; raised once the task has ended.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            # Not awaited itself: its end must not be taken for a cancellation of the caller.
            await asyncio.wait({task})
        except asyncio.CancelledError as again:
            cancelled = again
            if insisting:
                task.cancel()
    if cancelled is not None:
        raise cancelled
