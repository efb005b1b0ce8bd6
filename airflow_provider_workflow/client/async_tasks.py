"""How a client waits for tasks of asyncio that must end."""

from __future__ import annotations

import asyncio
from typing import Any


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
