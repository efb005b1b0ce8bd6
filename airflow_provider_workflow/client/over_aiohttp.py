"""Carries a request with ``aiohttp``: for triggers, which share one session per event loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp

from airflow_provider_workflow.client.environment import proxy_for
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.wire import Answer, Request, host_of

CONNECTIONS = 100
"""Connections for calls, beside those that event streams hold."""


@dataclass
class Line:
    """
    How far a request came.

    :param stood: whether it had a connection, so that the service may have taken it. Only what
        ``_trace`` reports makes this False.
    """

    stood: bool = True


def _trace() -> aiohttp.TraceConfig:
    """Reports how far a request came, which the exceptions of ``aiohttp`` do not tell."""

    async def began(_: object, context: Any, __: object) -> None:
        if isinstance(context.trace_request_ctx, Line):
            context.trace_request_ctx.stood = False

    async def connected(_: object, context: Any, __: object) -> None:
        if isinstance(context.trace_request_ctx, Line):
            context.trace_request_ctx.stood = True

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(began)
    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(connected)
    return trace


@dataclass
class _Shared:
    session: aiohttp.ClientSession
    users: int = 0


_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str | None, _Shared]] = WeakKeyDictionary()


@asynccontextmanager
async def shared_session(ca_file: str | None, streams: int) -> AsyncIterator[aiohttp.ClientSession]:
    """
    The session of this event loop, closed when its last user leaves.

    Building one loads the CA certificates, about 20 ms in which the loop stands still.

    :param ca_file: file of the CA certificates to trust; None verifies nothing.
    :param streams: event streams that may be open at once; its connection limit leaves room for them.
    """
    of_loop = _sessions.setdefault(asyncio.get_running_loop(), {})
    shared = of_loop.get(ca_file)
    if shared is None:
        tls: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca_file) if ca_file else False
        connector = aiohttp.TCPConnector(limit=CONNECTIONS + streams, ssl=tls, ttl_dns_cache=300)
        # No cookies: clients of other connections use the same session.
        jar = aiohttp.DummyCookieJar()
        session = aiohttp.ClientSession(
            connector=connector, cookie_jar=jar, trust_env=False, trace_configs=[_trace()]
        )
        shared = of_loop[ca_file] = _Shared(session)
    shared.users += 1
    try:
        yield shared.session
    finally:
        shared.users -= 1
        if shared.users == 0:
            del of_loop[ca_file]
            await shared.session.close()


async def exchange(session: aiohttp.ClientSession, request: Request) -> Answer:
    """
    Send a request and read all of its answer.

    :raises TransportError: no whole answer came within ``request.timeout`` seconds.
    """
    line = Line()
    try:
        async with session.request(
            request.method,
            request.url,
            params=request.query,
            headers=request.headers,
            data=request.body,
            timeout=aiohttp.ClientTimeout(total=request.timeout),
            allow_redirects=False,
            proxy=proxy_for(request.url),
            trace_request_ctx=line,
        ) as response:
            body = await response.read()
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, headers, body)
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
        broken = fault(error, request, line)
    # Out here it has no context: the exceptions of the library hold the request with its secrets.
    raise broken


def fault(error: BaseException, request: Request, line: Line) -> TransportError:
    """What went wrong, as an exception whose text names the host and no part of the request."""
    host = host_of(request.url)
    timed_out = isinstance(error, asyncio.TimeoutError)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return TransportError(f"the certificate of {host} does not verify", sent=False, permanent=True)
    if line.stood:
        if timed_out:
            text = f"{host} gave no whole answer within {request.timeout:g} s"
        else:
            text = f"the connection to {host} broke off: {_reason(error)}"
        return TransportError(text, sent=True)
    if timed_out:
        text = f"{host} gave no connection within {request.timeout:g} s"
    elif isinstance(error, (aiohttp.ClientHttpProxyError, aiohttp.ClientProxyConnectionError)):
        text = f"{host} cannot be reached through the proxy of the environment: {_reason(error)}"
    elif isinstance(error, (aiohttp.ClientConnectorSSLError, ssl.SSLError)):
        text = f"no secure connection to {host}: {_reason(error)}"
    else:
        text = f"{host} cannot be reached: {_reason(error)}"
    return TransportError(text, sent=False)


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"it answered {error.status}"
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return (isinstance(inner, OSError) and inner.strerror) or type(inner).__name__
