"""The event stream of an inbox (service facts 5): availability only, without replay."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

from airflow_provider_workflow.emulator.core import Notice
from airflow_provider_workflow.emulator.errors import ServiceError
from airflow_provider_workflow.emulator.records import AccessToken
from airflow_provider_workflow.emulator.store import Store

KEEP_ALIVE = b": keep-alive\n\n"


class EventStream:
    """
    One open connection. It ends when its token expires, its inbox is deleted, or it is closed.

    :param streams: where it is listed while it is open.
    :param inbox_id: whose messages it announces.
    :param token: the token it was opened with.
    """

    def __init__(self, streams: Streams, store: Store, inbox_id: str, token: AccessToken) -> None:
        self.streams = streams
        self.store = store
        self.inbox_id = inbox_id
        self.token = token
        self.pending = 0
        self.closed = False
        self.woken = asyncio.Event()

    async def run(
        self, write: Callable[[bytes], Awaitable[None]], gone: Callable[[], Awaitable[None]]
    ) -> None:
        """Write frames until the end; what arrives after the headers were sent is announced."""
        self.streams.open.add(self)
        watcher = asyncio.ensure_future(gone())
        watcher.add_done_callback(lambda _: self.close())
        try:
            await self._write_frames(write)
        finally:
            watcher.cancel()
            self.streams.open.discard(self)

    def close(self) -> None:
        """End it soon. To be called in the loop's thread."""
        self.closed = True
        self.woken.set()

    async def _write_frames(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        quiet_since = self.store.clock.now()
        while self._lives():
            if self.pending:
                count, self.pending = self.pending, 0
                await write(
                    b"data: %s\n\n" % json.dumps({"inbox_id": self.inbox_id, "count": count}).encode()
                )
            elif self.store.clock.now() >= quiet_since + self.store.settings.keep_alive_seconds:
                await write(KEEP_ALIVE)
            else:
                await self._sleep_until(quiet_since + self.store.settings.keep_alive_seconds)
                continue
            quiet_since = self.store.clock.now()

    async def _sleep_until(self, keep_alive_at: float) -> None:
        seconds = min(keep_alive_at, self.token.expires_at) - self.store.clock.now()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.woken.wait(), max(seconds, 0.01))
        self.woken.clear()

    def _lives(self) -> bool:
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

    def tell(self, notice: Notice) -> None:
        """Pass a notice on to the streams that it concerns. Thread-safe."""
        if self.loop and self.open:
            self.loop.call_soon_threadsafe(self._tell, notice)

    def close(self, inbox_id: str | None = None) -> None:
        """End the streams of an inbox, or all. Thread-safe."""
        if self.loop and self.open:
            self.loop.call_soon_threadsafe(self._close, inbox_id)

    def _tell(self, notice: Notice) -> None:
        for stream in self.open:
            if notice.inbox_id in (None, stream.inbox_id):
                stream.pending += notice.count
                stream.woken.set()

    def _close(self, inbox_id: str | None) -> None:
        for stream in list(self.open):
            if inbox_id in (None, stream.inbox_id):
                stream.close()
