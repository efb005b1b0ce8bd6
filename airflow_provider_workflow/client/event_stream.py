"""
Event streams of inboxes (docs/service.md 5): they wake up listeners when messages may be available.

A stream has no messages and does not replay notices. Therefore each (re)connection is also a wake-up, and
listeners poll as well. All listeners of an inbox in an event loop share one stream.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.attempt import (
    Bearer,
    Parties,
    bearer_token,
    build,
    hide,
    scope_of,
    token_refused,
)
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.client import AsyncWorkflowClient, end
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    RateLimitError,
    ServerError,
    WorkflowAPIError,
    WorkflowError,
)
from airflow_provider_workflow.client.failures import failure
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import token_key
from airflow_provider_workflow.client.wire import Answer, Request

if TYPE_CHECKING:
    import aiohttp


LONGEST_LINE = 65536
"""Maximum number of bytes of a line and of an event; the rest is dropped. A notice has a few hundred."""


class EventParser:
    """Parses an event stream that arrives in chunks of any size."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._after_return = False

    def feed(self, chunk: bytes) -> list[Any]:
        """
        Add bytes to the stream.

        :param chunk: the next bytes of the stream.
        :return: the decoded data of each event that is now complete; {} if the data is not JSON.
        """
        if not chunk:
            return []
        if self._after_return:
            chunk = chunk.removeprefix(b"\n")  # the rest of a CRLF that is split between two chunks
        self._after_return = chunk.endswith(b"\r")
        lines = (self._rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()[:LONGEST_LINE]
        return [event for line in lines if (event := self._take(line[:LONGEST_LINE])) is not None]

    def _take(self, line: bytes) -> Any:
        """The event that a line ends, or None."""
        if line.startswith(b"data:") and sum(map(len, self._data)) < LONGEST_LINE:
            self._data.append(line[5:].strip())
        if line or not self._data:
            return None
        data, self._data = b"\n".join(self._data), []
        return _decoded(data)


def _decoded(data: bytes) -> Any:
    # A notice that cannot be decoded still wakes up the listeners.
    try:
        return json.loads(data) or {}
    except (ValueError, RecursionError):
        return {}


SILENCE_SECONDS = 60.0
"""Read timeout: the duration of four keep-alive intervals."""


async def notices_of(client: AsyncWorkflowClient, inbox_id: str) -> AsyncGenerator[Any, None]:
    """
    Open the event stream of an inbox, with a new token if the cached one is rejected.

    Yields None when connected, then each notice, until the service ends the stream.

    :raises WorkflowError: the stream could not be opened, or the connection was lost.
    """
    tokens = client.parties.tokens
    key = token_key(client.settings, scope_of(api.events(inbox_id), client.settings))
    renewed = False
    while True:
        request, bearer = await client.run(_signed(inbox_id, client.parties))
        try:
            async with aclosing(_read(client, request, bearer)) as notices:
                async for notice in notices:
                    yield notice
            return
        except AuthenticationError as error:
            # Streams reconnect often, and must not renew the token, which all calls share, each time.
            if not token_refused(error) or tokens.is_sound(key, bearer.token):
                raise
            if renewed or bearer.fresh:
                tokens.mark_accepted(key, bearer.token)
                raise
        tokens.drop(key, bearer.token)
        renewed = True


def _signed(inbox_id: str, parties: Parties) -> Generator[Any, Any, tuple[Request, Bearer]]:
    call = api.events(inbox_id)
    bearer = yield from bearer_token(call, parties)
    return build(parties.settings, call, bearer, parties.proxy_for), bearer


async def _read(client: AsyncWorkflowClient, request: Request, bearer: Bearer) -> AsyncGenerator[Any, None]:
    import aiohttp

    from airflow_provider_workflow.client.over_aiohttp import Line, fault

    limit = aiohttp.ClientTimeout(total=None, sock_connect=request.timeout, sock_read=SILENCE_SECONDS)
    line = Line.begin()
    try:
        async with client.session.get(
            request.url,
            headers={**request.headers, "Accept": "text/event-stream"},
            timeout=limit,
            allow_redirects=False,
            proxy=request.proxy,
        ) as response:
            if response.status != 200 or response.content_type != "text/event-stream":
                raise await refusal_of(client, response, request.timeout, bearer)
            yield None
            parser = EventParser()
            async for chunk in response.content.iter_any():
                for notice in parser.feed(chunk):
                    yield notice
            return
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        broken = fault(error, request, line)
    raise broken  # raised here, it has no context, as in ``exchange``


async def refusal_of(
    client: AsyncWorkflowClient, response: aiohttp.ClientResponse, seconds: float, bearer: Bearer
) -> WorkflowAPIError:
    """The error for a response that is not an event stream; its body is read for at most ``seconds``."""
    call = api.events("-")
    body = b""
    if response.status >= 300:
        async with clock.timeout(seconds):
            body = await response.read()
    answer = hide(Answer(response.status, response.headers, body), client.settings, call, bearer)
    refused = _failure_of(call, answer, response.content_type)
    client.parties.observe(call, refused, clock.now())
    return refused


def _failure_of(call: Call[Any], answer: Answer, content_type: str) -> WorkflowAPIError:
    if not answer.is_success:
        return failure(call, answer)
    text = f"events was answered with {answer.status} and no event stream ({content_type})"
    return WorkflowAPIError(text, status=answer.status)


log = logging.getLogger(__name__)

RECONNECT_SECONDS = (0.5, 1.0, 2.0, 5.0)
REFUSED_SECONDS = 300.0
"""Pause before a stream that was rejected (4xx other than 429) is opened again (docs/service.md 5)."""


class WakeUps:
    """The wake-ups of one listener of a stream; one that occurs between two waits ends the next wait."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake_up(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """
        Wait for a wake-up.

        :param seconds: maximum duration, 0 or more.
        :return: whether there was one.
        """
        try:
            if not self._event.is_set():
                async with clock.timeout(seconds):
                    await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


@dataclass
class _Stream:
    listeners: set[WakeUps] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    def wake_up(self) -> None:
        for each in self.listeners:
            each.wake_up()


# The key includes the session, so that no stream outlives the session on which it was opened.
_Key = tuple["aiohttp.ClientSession", Settings, str]
_streams: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, _Stream]] = WeakKeyDictionary()


@asynccontextmanager
async def listen(client: AsyncWorkflowClient, inbox_id: str, streams: int) -> AsyncIterator[WakeUps]:
    """
    Wake-ups by the notices of an inbox, from the stream that this event loop shares.

    :param streams: maximum number of open streams, 0 or more; beyond it, a listener gets no wake-ups.
    """
    of_loop = _streams.setdefault(asyncio.get_running_loop(), {})
    key = (client.session, client.settings, inbox_id)
    wake_ups = WakeUps()
    if key not in of_loop and len(of_loop) >= streams:
        yield wake_ups
        return
    stream = of_loop.setdefault(key, _Stream())
    stream.listeners.add(wake_ups)
    if stream.task is None:
        stream.task = asyncio.create_task(_keep_open(client, inbox_id, stream))
    try:
        yield wake_ups
    finally:
        stream.listeners.discard(wake_ups)
        if not stream.listeners:
            of_loop.pop(key, None)
            await end(stream.task)


async def _keep_open(client: AsyncWorkflowClient, inbox_id: str, stream: _Stream) -> None:
    failures = 0
    while stream.listeners:
        error: Exception | None = None
        try:
            async with aclosing(notices_of(client, inbox_id)) as notices:
                async for notice in notices:
                    stream.wake_up()
                    failures = failures if notice is None else 0
        except WorkflowError as fault:
            error = fault
            log.debug("Event stream of inbox %s: %s", inbox_id, fault)
        except Exception as fault:
            # Listeners poll as well; without the stream they only lease messages later.
            if failures == 0:
                log.warning("Event stream of inbox %s broke: %s", inbox_id, type(fault).__name__)
        pause = _pause(error, RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])
        failures += 1
        await clock.async_sleep(pause * random.uniform(1.0, 1.25))  # noqa: S311 spreads reconnections


def _pause(error: Exception | None, pause: float) -> float:
    """
    Seconds until the stream is opened again.

    :param error: the error that ended it; None if the service ended it.
    :param pause: the shortest pause, by the number of failures.
    """
    if isinstance(error, (RateLimitError, ServerError)):
        return max(pause, error.retry_after or 0.0)
    return REFUSED_SECONDS if isinstance(error, WorkflowAPIError) else pause
