"""A trigger that fires with no network at all: the floor of what a trigger can be measured against."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class FifoTrigger(BaseTrigger):
    """
    Fires once something is written to a named pipe, of which the event loop is told by the kernel.

    :param path: of the pipe.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {"path": self.path}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and fire once."""
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        pipe = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        loop.add_reader(pipe, told.set)
        try:
            await told.wait()
        finally:
            loop.remove_reader(pipe)
            os.close(pipe)
        yield TriggerEvent({})


def tell(path: str) -> None:
    """
    Make the trigger fire that waits at a named pipe.

    :raises OSError: none does.
    """
    pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(pipe, b"!")
    finally:
        os.close(pipe)
