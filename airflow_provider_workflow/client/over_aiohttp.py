"""Carries a request with ``aiohttp``: for triggers, which share one session per event loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import aiohttp

from airflow_provider_workflow.client.environment import proxy_for
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.client.wire import Answer, Request, host_of

CONNECTIONS = 100
"""Connections for calls, beside those that event streams hold."""


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
        shared = of_loop[ca_file] = _Shared(aiohttp.ClientSession(connector=connector, trust_env=False))
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
        ) as response:
            body = await response.read()
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, headers, body)
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
        raise fault(error, request) from None


def fault(error: BaseException, request: Request) -> TransportError:
    """What went wrong, as an exception whose text names the host and no part of the request."""
    host = host_of(request.url)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return TransportError(f"the certificate of {host} does not verify", sent=False, permanent=True)
    if isinstance(error, (aiohttp.ClientConnectorSSLError, aiohttp.ClientHttpProxyError)):
        return TransportError(f"no secure connection to {host}: {type(error).__name__}", sent=False)
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = error.os_error.strerror or type(error.os_error).__name__
        return TransportError(f"{host} cannot be reached: {reason}", sent=False)
    if isinstance(error, asyncio.TimeoutError):
        return TransportError(f"{host} gave no whole answer within {request.timeout:g} s", sent=True)
    return TransportError(f"the connection to {host} broke off: {type(error).__name__}", sent=True)
