"""Sends requests with ``aiohttp``: for triggers, which share one session per event loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp

from airflow_provider_workflow.client.answers import Stage, no_answer
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.wire import Answer, Body, Request

CONNECTIONS = 100
"""Maximum number of connections for calls, in addition to those of event streams."""


@dataclass
class Line:
    """
    Whether a request had a connection, which the exceptions of ``aiohttp`` do not say.

    :param stood: whether it had a connection, so that the service may have received it; None if that is
        unknown, which counts as True.
    """

    stood: bool | None = None

    @classmethod
    def begin(cls) -> Line:
        """The line of the next request in this context."""
        line = cls()
        _line.set(line)
        return line


_timeout = cache(lambda seconds: aiohttp.ClientTimeout(total=seconds))
_line: ContextVar[Line] = ContextVar("line")


class _Connector(aiohttp.TCPConnector):
    """Records the connection in the line. The library's traces could too, but cost a fifth of a request."""

    async def connect(self, *args: Any, **kwargs: Any) -> aiohttp.connector.Connection:
        line = _line.get(None) or Line()
        if line.stood is None:  # else the library is repeating a request that may have been received
            line.stood = False
        connection = await super().connect(*args, **kwargs)
        line.stood = True
        return connection


@dataclass
class _Shared:
    session: aiohttp.ClientSession
    users: int = 0


_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str | None, _Shared]] = WeakKeyDictionary()


@asynccontextmanager
async def shared_session(certificates: str | None, streams: int) -> AsyncIterator[aiohttp.ClientSession]:
    """
    The session of this event loop, closed when its last user leaves the context.

    To create one loads the CA certificates, which blocks the loop for about 20 ms.

    :param certificates: CA certificates to trust, in PEM format; None: certificates are not verified.
    :param streams: maximum number of open event streams; added to the session's connection limit.
    """
    of_loop = _sessions.setdefault(asyncio.get_running_loop(), {})
    shared = of_loop.get(certificates)
    if shared is None:
        tls = certificates is not None and ssl.create_default_context(cadata=certificates)
        connector = _Connector(limit=CONNECTIONS + streams, ssl=tls, ttl_dns_cache=300)
        # No cookies: clients of different connections share the session.
        jar = aiohttp.DummyCookieJar()
        session = aiohttp.ClientSession(
            connector=connector, cookie_jar=jar, trust_env=False, auto_decompress=False
        )
        shared = of_loop[certificates] = _Shared(session)
    shared.users += 1
    try:
        yield shared.session
    finally:
        shared.users -= 1
        if shared.users == 0:
            del of_loop[certificates]
            await shared.session.close()


async def exchange(session: aiohttp.ClientSession, request: Request) -> Answer:
    """
    Send a request and read its complete answer.

    :raises TransportError: no complete answer within ``request.timeout`` seconds.
    """
    line = Line.begin()
    try:
        async with session.request(
            request.method,
            request.url,
            params=request.query,
            headers=request.headers,
            data=request.body,
            timeout=_timeout(request.timeout),
            allow_redirects=False,
            proxy=request.proxy,
        ) as response:
            return await answer_of(response, request.limit)
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        broken = fault(error, request, line)
    # Raised here, it has no context: the library's exceptions contain the request with its secrets.
    raise broken


async def answer_of(response: aiohttp.ClientResponse, limit: int) -> Answer:
    """The answer of a response; of a body that is longer than the limit, the rest is not read."""
    body = Body(response.status, response.headers.get("content-encoding"), limit)
    async with aclosing(chunks_of(response)) as chunks:
        async for chunk in chunks:
            for _ in body.add(chunk):
                await asyncio.sleep(0)
            if body.is_cut:
                response.close()
                break
    return Answer(response.status, response.headers, body.received(), body.is_cut)


async def chunks_of(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """The bytes of a body as they arrive, which are read here and nowhere else; compressed if it is."""
    async for chunk in response.content.iter_any():
        yield chunk
        await asyncio.sleep(
            0
        )  # the next chunk may have been received already, and is returned without a turn


def fault(error: BaseException, request: Request, line: Line) -> TransportError:
    """The ``TransportError`` for an exception of ``aiohttp``; see ``no_answer``."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        stage = Stage.CERTIFICATE
    elif isinstance(error, (aiohttp.ClientHttpProxyError, aiohttp.ClientProxyConnectionError)):
        stage = Stage.PROXY
    elif isinstance(error, (aiohttp.ClientConnectorSSLError, ssl.SSLError)):
        stage = Stage.TLS
    else:
        stage = Stage.CONNECTION
    timed_out = isinstance(error, asyncio.TimeoutError)
    return no_answer(request, stage, _reason(error), sent=line.stood is not False, timed_out=timed_out)


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"it answered {error.status}"
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return (isinstance(inner, OSError) and inner.strerror) or type(inner).__name__
