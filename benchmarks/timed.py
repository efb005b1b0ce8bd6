"""A notice trigger that tells when it emits an event, and the least that a watcher can do."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

AT = "at"
"""In the payload of an event: when the trigger emitted it, in seconds since 1970."""
PIPE_VARIABLE = "WORKFLOW_BENCH_PIPE"
"""Environment variable of DAG files: the path of the named pipe of the floor."""


class TimedNoticeTrigger(WorkflowInboxNoticeTrigger):
    """Ours, whose events have the time."""

    def _event(self, inbox_id: str, *, is_alarm: bool) -> TriggerEvent:
        event = super()._event(inbox_id, is_alarm=is_alarm)
        return TriggerEvent({**event.payload, AT: time.time()})


class PipeTrigger(BaseEventTrigger):
    """
    Emits an event each time that something is written to a named pipe: the least that a watcher can do.

    :param path: of the pipe, which exists.
    """

    def __init__(self, path: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.path = path

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", {"path": self.path}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, emit, and wait again."""
        loop, is_written = asyncio.get_running_loop(), asyncio.Event()
        pipe = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

        def read() -> None:
            os.read(pipe, 4096)  # or this is called again
            is_written.set()

        loop.add_reader(pipe, read)
        try:
            while True:
                await is_written.wait()
                is_written.clear()
                yield TriggerEvent({AT: time.time()})
        finally:
            loop.remove_reader(pipe)
            os.close(pipe)


def notify(path: str) -> None:
    """
    Make the trigger emit an event that waits at a named pipe.

    :raises OSError: none does.
    """
    pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(pipe, b"!")
    finally:
        os.close(pipe)
