"""
The event stream of an inbox (service facts 5): rings when there may be something to lease.

A stream carries no messages and replays nothing, so every (re)connection rings as well, and those
who wait poll beneath it. All who wait for the same inbox in an event loop share one stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.auth import token_key
from airflow_provider_workflow.client.client import AsyncWorkflowClient
from airflow_provider_workflow.client.conversation import Parties, bearer_token, build, scope_of
from airflow_provider_workflow.client.environment import proxy_for
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    RateLimitError,
    ServerError,
    WorkflowAPIError,
    WorkflowError,
)
from airflow_provider_workflow.client.failures import failure
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.wire import Answer, Request

log = logging.getLogger(__name__)

MAX_STREAMS = 500
RECONNECT_SECONDS = (0.5, 1.0, 2.0, 5.0)
REFUSED_SECONDS = 300.0
"""How long a stream that the service refuses (4xx other than 429) is left alone (service facts 5)."""
SILENCE_SECONDS = 60.0
"""Without a byte for four keep-alives the connection is dead."""
LONGEST_LINE = 65536


class EventParser:
    """Takes an event stream apart, whatever way its bytes are cut."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Any]:
        """
        :param chunk: the next bytes of the stream.
        :return: the decoded data of each event that is now whole; undecodable data counts as {}.
        """
        lines = (self._rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()[:LONGEST_LINE]
        found = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip())
            elif not line and self._data:
                found.append(_decoded(b"\n".join(self._data)))
                self._data = []
        return found


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        # A notice that cannot be read is still a notice: whoever waits will lease and see.
        return {}


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
            await asyncio.wait_for(self._rung.wait(), seconds)
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


_streams: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[Settings, str], _Stream]] = (
    WeakKeyDictionary()
)


@asynccontextmanager
async def listen(
    client: AsyncWorkflowClient, inbox_id: str, streams: int = MAX_STREAMS
) -> AsyncIterator[Bell]:
    """
    Wait for what an inbox announces, on a stream that is shared with others of this event loop.

    :param streams: streams that may be open at once, 0 or more; a bell beyond that never rings.
    """
    of_loop = _streams.setdefault(asyncio.get_running_loop(), {})
    key = (client.settings, inbox_id)
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
            stream.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await stream.task


async def _keep_open(client: AsyncWorkflowClient, inbox_id: str, stream: _Stream) -> None:
    failures = 0
    while True:
        try:
            async for _ in _notices(client, inbox_id):
                failures = 0
                stream.ring()
            pause = RECONNECT_SECONDS[0]
        except (WorkflowError, OSError) as error:
            pause = _pause(error, failures)
            failures += 1
            log.debug("Event stream of inbox %s: %s; again in %.1f s", inbox_id, error, pause)
        await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 spreads reconnections


def _pause(error: Exception, failures: int) -> float:
    if isinstance(error, (RateLimitError, ServerError)) and error.retry_after is not None:
        return error.retry_after
    if isinstance(error, WorkflowAPIError) and not isinstance(error, (RateLimitError, ServerError)):
        return REFUSED_SECONDS
    return RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)]


async def _notices(client: AsyncWorkflowClient, inbox_id: str) -> AsyncIterator[Any]:
    """Connect, with a new token where the one at hand is refused; yields once connected, then per notice."""
    request, token, fresh = await client.run(_signed(inbox_id, client.parties))
    try:
        async for notice in _read(client, request):
            yield notice
    except AuthenticationError:
        if not fresh:
            settings = client.settings
            client.parties.tokens.drop(token_key(settings, scope_of(api.events(inbox_id), settings)), token)
            return
        raise


def _signed(inbox_id: str, parties: Parties) -> Generator[Any, Any, tuple[Request, str, bool]]:
    call = api.events(inbox_id)
    token, fresh = yield from bearer_token(call, parties)
    return build(parties.settings, call, token), token, fresh


async def _read(client: AsyncWorkflowClient, request: Request) -> AsyncIterator[Any]:
    import aiohttp

    from airflow_provider_workflow.client.over_aiohttp import Line, fault

    limit = aiohttp.ClientTimeout(total=None, sock_connect=request.timeout, sock_read=SILENCE_SECONDS)
    headers = {**request.headers, "Accept": "text/event-stream"}
    try:
        async with client.session.get(
            request.url, headers=headers, timeout=limit, allow_redirects=False, proxy=proxy_for(request.url)
        ) as response:
            if response.status != 200:
                answered = {name.lower(): value for name, value in response.headers.items()}
                answer = Answer(response.status, answered, await response.read())
                raise failure(api.events("-"), answer) or ServerError("no event stream", status=answer.status)
            yield {}
            parser = EventParser()
            async for chunk in response.content.iter_any():
                for notice in parser.feed(chunk):
                    yield notice
    except (aiohttp.ClientError, asyncio.TimeoutError) as error:
        raise fault(error, request, Line()) from None
