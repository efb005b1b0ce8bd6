"""How uvicorn serves the emulator."""

from __future__ import annotations

import socket
import threading

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from airflow_provider_workflow.emulator.app import build_app
from airflow_provider_workflow.emulator.web.context import Emulator

KEEP_ALIVE_SECONDS = 75


class OpenProtocol(HttpToolsProtocol):
    """Hands the transport to the application, which cuts connections on demand."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"connection": {"transport": self.transport}}


class ReadyServer(uvicorn.Server):
    """Tells when it answers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


def configuration(emulator: Emulator) -> uvicorn.Config:
    """What uvicorn serves, and how: silently, with connections that outlast a client's pool."""
    return uvicorn.Config(
        build_app(emulator),
        http=OpenProtocol,
        ws="none",
        loop="auto",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,  # web/wire.py sends the date of the emulator's own clock
        # Far above what a client's pool keeps: a server that closes idle connections first would
        # fail requests at random.
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=2,
    )
