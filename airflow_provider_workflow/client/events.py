"""
Who listens to the event stream of an inbox (docs/service.md 5): rings when there may be something to lease.

A stream carries no messages and replays nothing, so every (re)connection rings as well, and those
who wait poll beneath it. All who wait for the same inbox in an event loop share one stream.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.errors import (
    RateLimitError,
    ServerError,
    WorkflowAPIError,
    WorkflowError,
)
from airflow_provider_workflow.client.event_stream import notices_of
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.waiting import end

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

RECONNECT_SECONDS = (0.5, 1.0, 2.0, 5.0)
REFUSED_SECONDS = 300.0
"""How long a stream that the service refuses (4xx other than 429) is left alone (docs/service.md 5)."""


class Bell:
    """One listener's side of a stream: remembers a ring until it is heard."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, seconds: float) -> bool:
        """
        Wait for a ring.

        :param seconds: at most this long, 0 or more.
        :return: whether it rang.
        """
        try:
            if not self._rung.is_set():
                async with clock.timeout(seconds):
                    await self._rung.wait()
        except asyncio.TimeoutError:
            return False
        self._rung.clear()
        return True


@dataclass
class _Stream:
    bells: set[Bell] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    def ring(self) -> None:
        for bell in self.bells:
            bell.ring()


# By session too, so that a stream never outlives the session that it was opened on.
_Key = tuple["aiohttp.ClientSession", Settings, str]
_streams: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, _Stream]] = WeakKeyDictionary()


@asynccontextmanager
async def listen(client: AsyncWorkflowClient, inbox_id: str, streams: int) -> AsyncIterator[Bell]:
    """
    Wait for what an inbox announces, on a stream that is shared with others of this event loop.

    :param streams: streams that may be open at once, 0 or more; a bell beyond that never rings.
    """
    of_loop = _streams.setdefault(asyncio.get_running_loop(), {})
    key = (client.session, client.settings, inbox_id)
    bell = Bell()
    if key not in of_loop and len(of_loop) >= streams:
        yield bell
        return
    stream = of_loop.setdefault(key, _Stream())
    stream.bells.add(bell)
    if stream.task is None:
        stream.task = asyncio.create_task(_keep_open(client, inbox_id, stream))
    try:
        yield bell
    finally:
        stream.bells.discard(bell)
        if not stream.bells:
            of_loop.pop(key, None)
            await end(stream.task)


async def _keep_open(client: AsyncWorkflowClient, inbox_id: str, stream: _Stream) -> None:
    failures = 0
    while stream.bells:
        error: Exception | None = None
        try:
            async with aclosing(notices_of(client, inbox_id)) as notices:
                async for notice in notices:
                    stream.ring()
                    failures = failures if notice is None else 0
        except WorkflowError as fault:
            error = fault
            log.debug("Event stream of inbox %s: %s", inbox_id, fault)
        except Exception as fault:
            # Whoever listens polls beneath the stream; without it they only hear of messages later.
            if failures == 0:
                log.warning("Event stream of inbox %s broke: %s", inbox_id, type(fault).__name__)
        pause = _pause(error, RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])
        failures += 1
        await clock.async_sleep(pause * random.uniform(1.0, 1.25))  # noqa: S311 spreads reconnections


def _pause(error: Exception | None, pause: float) -> float:
    """
    Seconds to leave the stream alone.

    :param error: what ended it; None where the service did.
    :param pause: what the number of failures asks for.
    """
    if isinstance(error, (RateLimitError, ServerError)):
        return max(pause, error.retry_after or 0.0)
    return REFUSED_SECONDS if isinstance(error, WorkflowAPIError) else pause
