"""Sends requests over ``aiohttp``: the session of an event loop, and what becomes an answer or an error."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

import aiohttp

from airflow_provider_workflow.client.answers import (
    CERTIFICATE,
    CONNECTION,
    NOT_HTTP,
    PROXY,
    TLS,
    no_answer,
)
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.http_messages import MAX_HEADERS, MAX_LINE_BYTES, Answer, Body, Request

CONNECTIONS = 100
"""Maximum number of connections for calls, in addition to those of event streams."""


class NotConnectedError(aiohttp.ClientError):
    """A connection failed before the request was sent, in the tunnel of a proxy, say; the cause says why."""


NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, NotConnectedError)
"""Errors after which the service has not received the request."""
REQUEST_ERRORS = (aiohttp.ClientError, OSError, ValueError)
"""What ``aiohttp`` and the operating system raise for a request. ``TimeoutError`` is an ``OSError``."""
INVALID_ANSWER = (aiohttp.ClientResponseError, aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError)
"""Errors after which an answer is incomplete or not valid HTTP."""


class _Connector(aiohttp.TCPConnector):
    """
    Never reuses a connection that received something while it was idle.

    ``aiohttp`` would take that, such as an answer that came twice or late, for the answer to the next
    request.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used: WeakSet[Any] = WeakSet()

    async def connect(self, *args: Any, **kwargs: Any) -> Any:
        """
        A new connection, or an idle one.

        :raises NotConnectedError: connecting failed, and not by a ``ClientConnectorError`` or a timeout.
        """
        # One turn of the event loop: it reads what idle connections received, which sets ``should_close``.
        await asyncio.sleep(0)
        while True:
            try:
                connection: Any = await super().connect(*args, **kwargs)
            except (aiohttp.ClientConnectorError, TimeoutError):
                raise
            except REQUEST_ERRORS as error:
                raise NotConnectedError from error
            protocol = connection.protocol
            if not (protocol.should_close and protocol in self._used):
                self._used.add(protocol)
                return connection
            connection.close()


@dataclass
class _Shared:
    """A session, and how many contexts of :func:`shared_session` use it."""

    session: aiohttp.ClientSession
    users: int = 0


_Sessions: TypeAlias = dict[ssl.SSLContext | None, _Shared]
_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Sessions] = WeakKeyDictionary()


@asynccontextmanager
async def shared_session(tls: ssl.SSLContext | None, streams: int) -> AsyncIterator[aiohttp.ClientSession]:
    """
    The session of this event loop, closed when its last user leaves the context.

    :param tls: verifies certificates; None: they are not verified.
    :param streams: maximum number of open event streams; added to the session's connection limit.
    """
    of_loop = _sessions.setdefault(asyncio.get_running_loop(), {})
    shared = of_loop.get(tls)
    if shared is None:
        limit = CONNECTIONS + streams
        connector = _Connector(limit=limit, ssl=tls or False, ttl_dns_cache=300)
        # No cookies: clients of different connections share the session.
        jar = aiohttp.DummyCookieJar()
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=jar,
            trust_env=False,
            auto_decompress=False,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
        )
        shared = of_loop[tls] = _Shared(session)
    shared.users += 1
    try:
        yield shared.session
    finally:
        shared.users -= 1
        if shared.users == 0:
            del of_loop[tls]
            await shared.session.close()


async def exchange(session: aiohttp.ClientSession, request: Request) -> Answer:
    """
    Send a request and read its complete answer.

    :raises TransportError: no connection within ``request.timeout`` seconds, or no complete answer within a
        second more.
    """
    # The total is longer than the limit for the connection, so that the error says which of them ended it.
    timeout = aiohttp.ClientTimeout(connect=request.timeout, total=request.timeout + 1)
    try:
        async with session.request(
            request.method,
            request.url,
            params=request.query,
            headers=request.headers,
            data=request.body,
            timeout=timeout,
            allow_redirects=False,
            proxy=request.proxy,
        ) as response:
            return await answer_of(response, request.limit)
    except REQUEST_ERRORS as error:
        broken = transport_error(error, request)
    # Raised after the except clause: within it, it would have a context, whose frames contain the request.
    raise broken


def end_with_connection(response: aiohttp.ClientResponse) -> None:
    """
    Let a body fail when its connection is closed before its end; call this before ``next_chunk``.

    ``aiohttp`` closes a connection on which a chunk is invalid, and lets the reader of the body wait.
    """
    connection, body = response.connection, response.content
    if connection is None or connection.protocol is None:
        return  # the body has its end already

    def fail(closed: asyncio.Future[None] | None) -> None:
        if closed is not None and not closed.cancelled():
            closed.exception()  # an exception that nothing retrieves is logged
        if not body.is_eof() and body.exception() is None:
            body.set_exception(aiohttp.ClientPayloadError())

    closed = connection.protocol.closed
    if closed is None:  # it is closed already
        fail(None)
    else:
        closed.add_done_callback(fail)
        # The next response may come over the same connection.
        body.on_eof(partial(closed.remove_done_callback, fail))  # type: ignore[arg-type]


async def answer_of(response: aiohttp.ClientResponse, limit: int) -> Answer:
    """Read the answer of a response. What exceeds the limit of the body is not read."""
    end_with_connection(response)
    body = Body(response.status, response.headers.get("content-encoding"), limit)
    while chunk := await next_chunk(response):
        await body.add_in_loop(chunk)
        if body.is_cut:
            response.close()
            break
    return Answer(response.status, response.headers, body.received(), body.is_cut)


async def next_chunk(response: aiohttp.ClientResponse) -> bytes:
    """
    The next bytes of a body as they were received, so compressed or not; b"" at its end.

    Everything that reads a body calls this.

    :raises ClientPayloadError: the body is not valid HTTP.
    """
    try:
        chunk = await response.content.readany()
    except RuntimeError as error:
        # ``aiohttp`` closed the connection because a later chunk is invalid.
        raise aiohttp.ClientPayloadError from error
    if not response.content.at_eof():
        # If the next chunk was received already, ``readany`` returns it without a turn for other tasks.
        await asyncio.sleep(0)
    return chunk


def transport_error(error: BaseException, request: Request) -> TransportError:
    """The ``TransportError`` for an exception of ``aiohttp``; see ``no_answer``."""
    inner = error.__cause__ if isinstance(error, NotConnectedError) else error
    if isinstance(inner, aiohttp.ClientConnectorCertificateError):
        stage = CERTIFICATE
    elif isinstance(
        inner, (aiohttp.ClientHttpProxyError, aiohttp.ClientProxyConnectionError, *INVALID_ANSWER)
    ):
        stage = PROXY  # it matters only if nothing was sent, and then nothing but a proxy can have answered
    elif isinstance(inner, (aiohttp.ClientConnectorSSLError, ssl.SSLError)):
        stage = TLS
    else:
        stage = CONNECTION
    sent, timed_out = not isinstance(error, NOT_SENT), isinstance(error, TimeoutError)
    return no_answer(request, stage, _reason(inner), sent=sent, timed_out=timed_out)


def _reason(error: BaseException | None) -> str:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"it answered {error.status}"
    if isinstance(error, INVALID_ANSWER):
        return NOT_HTTP
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return (isinstance(inner, OSError) and inner.strerror) or type(inner).__name__
