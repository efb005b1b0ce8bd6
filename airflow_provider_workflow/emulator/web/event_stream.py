"""Announces messages by event streams (docs/service.md 5)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.records import Token
from airflow_provider_workflow.emulator.rules.store import Store

KEEP_ALIVE = b": keep-alive\n\n"
KEEP_ALIVE_SECONDS = 15
"""Seconds without an event before a comment is sent, by the emulator's clock (assumed)."""
HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


class EventStream(StreamingResponse):
    """
    One open stream. It ends when its token expires, its inbox is deleted, or it is closed.

    :param streams: lists it while it is open.
    :param token: the token of its request.
    """

    def __init__(self, streams: Streams, store: Store, inbox_id: str, token: Token) -> None:
        super().__init__(self._frames(), headers=HEADERS)
        self.streams = streams
        self.store = store
        self.inbox_id = inbox_id
        self.token = token
        self.pending = 0
        self.quiet_since = store.clock.now()  # before the client has the headers, or a frame
        self.closed = False
        self.wake_up = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.streams.open.add(self)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.streams.open.discard(self)  # also if the client has disconnected

    async def _frames(self) -> AsyncIterator[bytes]:
        """Yield the frames; messages that arrive after the headers are announced."""
        while self._may_go_on():
            silent_until = self.quiet_since + KEEP_ALIVE_SECONDS
            if not self.pending and self.store.clock.now() < silent_until:
                await self._sleep_until(min(silent_until, self.token.expires_at))
                continue
            self.quiet_since = self.store.clock.now()
            count, self.pending = self.pending, 0
            event = json.dumps({"inbox_id": self.inbox_id, "count": count}).encode()
            yield b"data: %s\n\n" % event if count else KEEP_ALIVE
        self.streams.open.discard(self)  # before the client sees the end

    async def _sleep_until(self, moment: float) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.wake_up.wait(), max(moment - self.store.clock.now(), 0.01))
        self.wake_up.clear()

    def _may_go_on(self) -> bool:
        try:
            self.store.inboxes.get(self.inbox_id)
        except ServiceError:
            return False
        return not self.closed and self.store.tokens.alive(self.token)


class Streams:
    """The open streams of all inboxes."""

    def __init__(self) -> None:
        self.open: set[EventStream] = set()
        self.loop: asyncio.AbstractEventLoop | None = None

    @asynccontextmanager
    async def attached(self, store: Store) -> AsyncIterator[None]:
        """Get the announcements of the rules while the server runs."""
        self.loop = asyncio.get_running_loop()
        store.listeners.append(self.notify)
        yield
        store.listeners.remove(self.notify)
        self.loop = None

    def notify(self, inbox_id: str | None) -> None:
        """Announce new messages to the streams of an inbox, or wake all. Thread-safe."""
        if self.loop and self.open:
            self.loop.call_soon_threadsafe(self._wake, inbox_id, False)

    def close(self) -> None:
        """End all streams. Thread-safe."""
        if self.loop and self.open:
            self.loop.call_soon_threadsafe(self._wake, None, True)

    def _wake(self, inbox_id: str | None, closed: bool) -> None:
        for stream in self.open:
            if inbox_id in (None, stream.inbox_id):
                # A frame counts notifications, not messages (docs/service.md 5).
                stream.pending += inbox_id is not None
                stream.closed |= closed
                stream.wake_up.set()
