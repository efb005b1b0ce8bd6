"""A watcher that does nothing but wait: what Airflow itself takes for each."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from benchmarks.watchers import POLL_SECONDS


class SleepingTrigger(BaseEventTrigger):
    """
    Wakes as often as one that polls.

    :param name: tells it from others.
    """

    def __init__(self, name: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.name = name

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", {"name": self.name}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        for _ in itertools.count():
            await asyncio.sleep(POLL_SECONDS)
        yield TriggerEvent({})
