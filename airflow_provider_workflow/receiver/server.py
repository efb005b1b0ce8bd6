"""Uvicorn for a receiver: silent about paths, and unimpressed by whoever keeps a connection busy."""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from airflow_provider_workflow.receiver.app import Receiver

MOST_CONNECTIONS = 200
"""Beyond them the answer is 503; what is not rung then is caught by the dispatch DAG's own schedule."""
CONNECTION_SECONDS = 10.0
"""A connection is one request, and no request takes longer."""


class BriefProtocol(H11Protocol):
    """Ends a connection after :data:`CONNECTION_SECONDS`, whatever it is doing."""

    _end: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._end = self.loop.call_later(CONNECTION_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        super().connection_lost(exc)


def build_server(receiver: Receiver) -> uvicorn.Server:
    """
    The server, to be run on a socket of :func:`listen`.

    Nothing is logged of a request: its path is a secret.
    """
    config = uvicorn.Config(
        receiver.app(),
        http=BriefProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """
    Listen.

    :param port: 0 picks a free one.
    :raises OSError: the address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=512)
