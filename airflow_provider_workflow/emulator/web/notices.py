"""Announces messages: by event streams and notification webhooks (docs/service.md 5 and 6)."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from airflow_provider_workflow.emulator.rules.core import Notice
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.records import AccessToken
from airflow_provider_workflow.emulator.rules.store import Store

KEEP_ALIVE = b": keep-alive\n\n"
HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


class EventStream(StreamingResponse):
    """
    One open stream. It ends when its token expires, its inbox is deleted, or it is closed.

    :param streams: lists it while it is open.
    :param token: the token of its request.
    """

    def __init__(self, streams: Streams, store: Store, inbox_id: str, token: AccessToken) -> None:
        super().__init__(self._frames(), headers=HEADERS)
        self.streams = streams
        self.store = store
        self.inbox_id = inbox_id
        self.token = token
        self.pending = 0
        self.closed = False
        self.wake_up = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.streams.open.add(self)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.streams.open.discard(self)  # also if the client has disconnected

    def close(self) -> None:
        """End the stream. Call it in the thread of the event loop."""
        self.closed = True
        self.wake_up.set()

    async def _frames(self) -> AsyncIterator[bytes]:
        """Yield the frames; messages that arrive after the headers are announced."""
        quiet_since = self.store.clock.now()
        while self._may_go_on():
            if self.pending:
                count, self.pending = self.pending, 0
                yield b"data: %s\n\n" % json.dumps({"inbox_id": self.inbox_id, "count": count}).encode()
            elif self.store.clock.now() >= quiet_since + self.store.settings.keep_alive_seconds:
                yield KEEP_ALIVE
            else:
                await self._sleep_until(quiet_since + self.store.settings.keep_alive_seconds)
                continue
            quiet_since = self.store.clock.now()
        self.streams.open.discard(self)  # before the client sees the end

    async def _sleep_until(self, keep_alive_at: float) -> None:
        seconds = min(keep_alive_at, self.token.expires_at) - self.store.clock.now()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.wake_up.wait(), max(seconds, 0.01))
        self.wake_up.clear()

    def _may_go_on(self) -> bool:
        if self.closed or not self.store.tokens.alive(self.token):
            return False
        try:
            self.store.inboxes.get(self.inbox_id)
        except ServiceError:
            return False
        return True


class Streams:
    """The open streams of all inboxes."""

    def __init__(self) -> None:
        self.open: set[EventStream] = set()
        self.loop: asyncio.AbstractEventLoop | None = None

    def notify(self, notice: Notice) -> None:
        """Pass a notice to the streams that it concerns. Thread-safe."""
        if self.loop and self.open:
            self.loop.call_soon_threadsafe(self._notify, notice)

    def close(self, inbox_id: str | None = None) -> None:
        """End the streams of an inbox, or all. Thread-safe."""
        if self.loop and self.open:
            self.loop.call_soon_threadsafe(self._close, inbox_id)

    def _notify(self, notice: Notice) -> None:
        for stream in self.open:
            if notice.inbox_id in (None, stream.inbox_id):
                # A frame counts notifications, not messages (docs/service.md 5).
                stream.pending += 1 if notice.count else 0
                stream.wake_up.set()

    def _close(self, inbox_id: str | None) -> None:
        for stream in list(self.open):
            if inbox_id in (None, stream.inbox_id):
                stream.close()


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
