"""
Event streams of inboxes (docs/service.md 5): they wake up triggers when messages may be available.

A stream has no messages and does not replay events. Therefore each (re)connection is also a wake-up, and
triggers poll as well. All triggers of an inbox in an event loop share one stream.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.answers import failure, request_of
from airflow_provider_workflow.client.client import AsyncWorkflowClient, end
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    RateLimitError,
    ServerError,
    WorkflowAPIError,
    WorkflowError,
)
from airflow_provider_workflow.client.exchange import is_token_rejected
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import AccessToken, token_key
from airflow_provider_workflow.client.wire import Answer, Request, plain

if TYPE_CHECKING:
    import aiohttp


DATA = b"data:"
"""Begins an event, and occurs in nothing else."""
MOST_EVENTS = 100
"""Maximum number of events in a second; a stream with more is closed, and its inbox polled."""


class BusyStreamError(Exception):
    """An event stream has too many events, which would keep the event loop busy, and is closed."""


class EventCounter:
    """Counts the events of a stream that arrives in chunks of any size."""

    def __init__(self) -> None:
        self._rest = b""
        self._second = clock.monotonic()
        self._in_second = 0

    def feed(self, chunk: bytes) -> int:
        """
        Add bytes to the stream.

        :param chunk: the next bytes of the stream.
        :return: the number of events that begin.
        :raises BusyStreamError: there are too many in a second.
        """
        received = self._rest + chunk
        self._rest = received[1 - len(DATA) :]
        events = received.count(DATA)
        if clock.monotonic() - self._second >= 1:
            self._second, self._in_second = clock.monotonic(), 0
        self._in_second += events
        if self._in_second > MOST_EVENTS:
            raise BusyStreamError
        return events


SILENCE_SECONDS = 60.0
"""Read timeout: the duration of four keep-alive intervals."""


async def events_of(client: AsyncWorkflowClient, inbox_id: str) -> AsyncGenerator[bool, None]:
    """
    Open the event stream of an inbox, with a new token if the cached one is rejected.

    Yields False when connected, then True for each chunk with events, until the service ends the stream.

    :raises WorkflowError: the stream could not be opened, or the connection was lost.
    """
    call = api.events(inbox_id)
    key = token_key(client.settings, client.settings.scope)
    renewed = False
    while True:
        token, is_new = await client.run(client.token_of(client.settings.scope))
        try:
            async with aclosing(_read(client, client.build(call, token), token)) as events:
                async for event in events:
                    yield event
            return
        except AuthenticationError as error:
            # Streams reconnect often, and must not renew the token, which all calls share, each time.
            if not is_token_rejected(error) or token.blameless:
                raise
            if renewed or is_new:
                if client.tokens.usable(key) == token:
                    client.tokens.put(key, replace(token, blameless=True))
                raise
        client.tokens.drop(key, token.value)
        renewed = True


async def _read(
    client: AsyncWorkflowClient, request: Request, token: AccessToken
) -> AsyncGenerator[bool, None]:
    import aiohttp

    from airflow_provider_workflow.client.over_aiohttp import fault, next_chunk

    limit = aiohttp.ClientTimeout(total=None, connect=request.timeout, sock_read=SILENCE_SECONDS)
    try:
        async with client.session.get(
            request.url,
            headers={**request.headers, "Accept": "text/event-stream"},
            timeout=limit,
            allow_redirects=False,
            proxy=request.proxy,
        ) as response:
            if not _is_event_stream(response):
                raise await _refusal_of(client, response, request.timeout, token)
            yield False
            counter = EventCounter()
            while chunk := await next_chunk(response):
                if counter.feed(chunk):
                    yield True
            return
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        broken = fault(error, request)
    raise broken  # raised here, it has no context, as in ``exchange``


def _is_event_stream(response: aiohttp.ClientResponse) -> bool:
    # A compressed stream is rejected, as it was not asked for: a few bytes could become many events.
    is_plain = response.headers.get("content-encoding", "identity") == "identity"
    return response.status == 200 and response.content_type == "text/event-stream" and is_plain


async def _refusal_of(
    client: AsyncWorkflowClient,
    response: aiohttp.ClientResponse,
    seconds: float,
    token: AccessToken,
) -> WorkflowAPIError:
    """The error for a response that is no event stream; its body is read for at most ``seconds``."""
    from airflow_provider_workflow.client.over_aiohttp import answer_of

    call = api.events("-")
    answer = Answer(response.status, response.headers, b"")
    if response.status >= 300:
        async with clock.timeout(seconds):
            answer = await answer_of(response, call.limit)
    answer = client.hide(answer, call, token)
    if answer.is_success:
        kind = plain(answer.headers.get("content-type", "no content type"), 100)
        text = f"{request_of(call.name)} was answered with {answer.status} and no event stream ({kind})"
        refused = WorkflowAPIError(text, status=answer.status)
    else:
        refused = failure(call, answer)
    client.observe(call, refused, clock.now())
    return refused


log = logging.getLogger(__name__)

RECONNECT_SECONDS = (0.5, 1.0, 2.0, 5.0)
REFUSED_SECONDS = 300.0
"""Pause before a stream that was rejected (4xx other than 429) is opened again (docs/service.md 5)."""


class WakeUps:
    """The wake-ups of one trigger by a stream; one that occurs between two waits ends the next wait."""

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
    waiting: set[WakeUps] = field(default_factory=set)
    task: asyncio.Task[None] | None = None


# The key includes the session, so that no stream outlives the session on which it was opened.
_Key = tuple["aiohttp.ClientSession", Settings, str]
_streams: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, _Stream]] = WeakKeyDictionary()


@asynccontextmanager
async def listen(
    client: AsyncWorkflowClient,
    inbox_id: str,
    streams: int,
) -> AsyncIterator[WakeUps | None]:
    """
    Wake-ups by the events of an inbox, from the stream that this event loop shares.

    :param streams: maximum number of open streams; None is yielded beyond it, and always if it is 0.
    """
    of_loop = _streams.setdefault(asyncio.get_running_loop(), {})
    key = (client.session, client.settings, inbox_id)
    if streams == 0 or (key not in of_loop and len(of_loop) >= streams):
        yield None
        return
    wake_ups = WakeUps()
    stream = of_loop.setdefault(key, _Stream())
    stream.waiting.add(wake_ups)
    if stream.task is None:
        stream.task = asyncio.create_task(_keep_open(client, inbox_id, stream))
    try:
        yield wake_ups
    finally:
        stream.waiting.discard(wake_ups)
        if not stream.waiting:
            of_loop.pop(key, None)
            await end(stream.task)


async def _keep_open(client: AsyncWorkflowClient, inbox_id: str, stream: _Stream) -> None:
    failures = 0
    while stream.waiting:
        error: Exception | None = None
        try:
            async with aclosing(events_of(client, inbox_id)) as events:
                async for has_events in events:
                    for wake_ups in stream.waiting:
                        wake_ups.wake_up()
                    failures = 0 if has_events else failures
        except WorkflowError as fault:
            error = fault
            log.debug("Event stream of inbox %s: %s", inbox_id, fault)
        except BusyStreamError as fault:
            error = fault
            text = "Event stream of inbox %s: closed for %.0f s, as it has more than %d events in a second"
            log.warning(text, inbox_id, REFUSED_SECONDS, MOST_EVENTS)
        except Exception as fault:
            # Triggers poll as well; without the stream they only lease messages later.
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
    return REFUSED_SECONDS if isinstance(error, (WorkflowAPIError, BusyStreamError)) else pause
