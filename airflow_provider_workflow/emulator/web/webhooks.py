"""The notification webhook (docs/service.md 6): sent once, in the background, regardless of the response."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import aiohttp

from airflow_provider_workflow.emulator.rules.core import Notice

TIMEOUT_SECONDS = 10
KEPT = 1000


class Webhooks:
    """
    Posts notices, and keeps the latest in ``sent``: ``{"url", "body", "status"}``. Without a response the
    status is the name of the exception.
    """

    def __init__(self) -> None:
        self.sent: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()

    def notify(self, notice: Notice) -> None:
        """Post a notice in the background. Thread-safe, never blocks."""
        if self.loop and notice.inbox_id and notice.url:
            self.loop.call_soon_threadsafe(self._start, notice)

    def clear(self) -> None:
        """Empty ``sent``, and start to close as :meth:`close` does. Thread-safe, never blocks."""
        self.sent.clear()
        if self.loop:
            self.loop.call_soon_threadsafe(self._cancel)

    async def close(self) -> None:
        """Cancel pending requests, and close all connections."""
        self._cancel()
        await asyncio.gather(*self._closing)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._session is not None:
            closing = asyncio.ensure_future(self._session.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            self._session = None

    def _start(self, notice: Notice) -> None:
        task = asyncio.ensure_future(self._post(notice))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _post(self, notice: Notice) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))
        body = {
            "inbox_id": notice.inbox_id,
            "received_message_count": notice.count,
            "redelivery": notice.redelivery,
        }
        try:
            async with self._session.post(str(notice.url), json=body) as response:
                status: int | str = response.status
        except (TimeoutError, aiohttp.ClientError) as error:
            status = type(error).__name__
        self.sent.append({"url": notice.url, "body": body, "status": status})
