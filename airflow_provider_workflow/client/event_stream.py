"""
Event streams of inboxes (docs/service.md 5): they wake up triggers when messages may be available.

A stream does not replay events. Therefore each (re)connection is also a wake-up, and triggers poll as well.
All triggers of an inbox in an event loop share one stream.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api, async_tasks
from airflow_provider_workflow.client.answers import failure, request_of
from airflow_provider_workflow.client.errors import (
    InvalidRequestError,
    RateLimitError,
    ServerError,
    WorkflowAPIError,
    WorkflowError,
    requested_wait,
)
from airflow_provider_workflow.client.http_messages import Answer
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.tokens import AccessToken
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.text import escaped

if TYPE_CHECKING:
    import aiohttp

    from airflow_provider_workflow.client.async_client import AsyncWorkflowClient

log = logging.getLogger(__name__)

DATA = b"data:"
"""Begins an event, and occurs in nothing else."""
MAX_EVENTS = 100
"""Maximum number of events in a second; a stream with more is closed, and its inbox polled."""

SILENCE_SECONDS = 60.0
"""Read timeout: the duration of four keep-alive intervals."""
RECONNECT_SECONDS = (0.5, 1.0, 2.0, 5.0)
REFUSED_SECONDS = 300.0
"""Pause before a stream that was rejected (4xx other than 429) is opened again (docs/service.md 5)."""


async def events_of(client: AsyncWorkflowClient, inbox_id: str) -> AsyncGenerator[bool, None]:
    """
    Open the event stream of an inbox.

    Yields False when connected, then True for each chunk with events, until the service ends the stream.

    :raises WorkflowError: the stream could not be opened, broke, or has too many events.
    """
    import aiohttp

    from airflow_provider_workflow.client.aiohttp_transport import (
        REQUEST_ERRORS,
        end_with_connection,
        next_chunk,
        transport_error,
    )

    token, _ = await client.token_of(client.settings.scope)
    request = client.build(api.events(inbox_id), token)
    limit = aiohttp.ClientTimeout(total=None, connect=request.timeout, sock_read=SILENCE_SECONDS)
    opening = client.session.get(
        request.url,
        headers={**request.headers, "Accept": "text/event-stream"},
        timeout=limit,
        allow_redirects=False,
        proxy=request.proxy,
    )
    try:
        async with AsyncExitStack() as stack:
            # The read timeout is one for each chunk of the head.
            async with clock.timeout(request.timeout + 1):
                response = await stack.enter_async_context(opening)
            is_stream = response.status == 200 and response.content_type == "text/event-stream"
            # Not a compressed one: a few bytes could become many events.
            if not is_stream or response.headers.get("content-encoding", "identity") != "identity":
                raise await _refusal_of(client, response, request.timeout, token)
            yield False
            tail, rate = b"", _EventRate(name_of(inbox_id, client.settings.connection_id))
            end_with_connection(response)
            while chunk := await next_chunk(response):
                received = tail + chunk
                tail, events = received[1 - len(DATA) :], received.count(DATA)
                rate.add(events)
                if events:
                    yield True
            return
    except REQUEST_ERRORS as error:
        broken = transport_error(error, request)
    # Raised after the except clause: within it, it would have a context, whose frames contain the request.
    raise broken


class _EventRate:
    """
    The events of a stream in a second.

    :param inbox_name: for the log; escaped.
    """

    def __init__(self, inbox_name: str) -> None:
        self._inbox_name = inbox_name
        self._began_at, self._count = clock.monotonic(), 0

    def add(self, events: int) -> None:
        """:raises InvalidRequestError: there are too many in this second."""
        if clock.monotonic() - self._began_at >= 1:
            self._began_at, self._count = clock.monotonic(), 0
        self._count += events
        if self._count > MAX_EVENTS:
            text = f"closed for {REFUSED_SECONDS:.0f} s: over {MAX_EVENTS} events in a second"
            log.warning("Event stream of inbox %s: %s", self._inbox_name, text)
            raise InvalidRequestError(text, status=200)


async def _refusal_of(
    client: AsyncWorkflowClient,
    response: aiohttp.ClientResponse,
    seconds: float,
    token: AccessToken,
) -> WorkflowError:
    from airflow_provider_workflow.client.aiohttp_transport import answer_of

    call = api.events("-")
    answer = Answer(response.status, response.headers, b"")
    if not answer.is_success:
        async with clock.timeout(seconds):
            answer = await answer_of(response, call.limit)
    answer = client.hide(answer, call, token)
    if answer.is_success:
        kind = escaped(answer.headers.get("content-type", "no content type"), 100)
        request = request_of(call.name)
        text = f"{request} was answered with {answer.status} and no event stream ({kind})"
        refused = WorkflowAPIError(text, status=answer.status)
    else:
        refused = failure(call, answer)
    client.observe(call, refused, clock.now())
    return refused


# The key includes the session, so that no stream outlives the session on which it was opened.
_Key = tuple["aiohttp.ClientSession", Settings, str]
_Stream = tuple[set[asyncio.Event], asyncio.Task[None]]
_streams: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, _Stream]] = WeakKeyDictionary()


@asynccontextmanager
async def listen(
    client: AsyncWorkflowClient,
    inbox_id: str,
    streams: int,
) -> AsyncIterator[asyncio.Event | None]:
    """
    An event that each event of an inbox sets, by the stream that this event loop shares.

    :param streams: maximum number of open streams; None is yielded beyond it, and always if it is 0.
    """
    of_loop = _streams.setdefault(asyncio.get_running_loop(), {})
    key = (client.session, client.settings, inbox_id)
    if streams == 0 or (key not in of_loop and len(of_loop) >= streams):
        yield None
        return
    if key not in of_loop:
        new: set[asyncio.Event] = set()
        of_loop[key] = new, asyncio.create_task(_keep_open(client, inbox_id, new))
    listeners, task = of_loop[key]
    wake_up = asyncio.Event()
    listeners.add(wake_up)
    try:
        yield wake_up
    finally:
        listeners.discard(wake_up)
        if not listeners:
            of_loop.pop(key, None)
            await async_tasks.ended(task, canceling=True)


async def _keep_open(client: AsyncWorkflowClient, inbox_id: str, listeners: set[asyncio.Event]) -> None:
    failures = 0
    while listeners:
        error: Exception | None = None
        try:
            async with aclosing(events_of(client, inbox_id)) as events:
                async for has_events in events:
                    for wake_up in listeners:
                        wake_up.set()
                    failures = 0 if has_events else failures
        except WorkflowError as fault:
            error = fault
            log.debug("Event stream of inbox %s: %s", escaped(inbox_id), fault)
        except Exception as fault:
            if failures == 0:
                name = name_of(inbox_id, client.settings.connection_id)
                log.warning("Event stream of inbox %s broke: %s", name, type(fault).__name__)
        pause = _pause(error, RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])
        failures += 1
        await clock.async_sleep(pause * random.uniform(1.0, 1.25))  # noqa: S311 spreads reconnections


def _pause(error: Exception | None, pause: float) -> float:
    if isinstance(error, (RateLimitError, ServerError)):
        return max(pause, requested_wait(error))
    return REFUSED_SECONDS if isinstance(error, WorkflowAPIError) else pause
