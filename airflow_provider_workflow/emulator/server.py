"""The emulator as a server in a thread, for tests and the command line."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from airflow_provider_workflow.emulator.clock import Clock
from airflow_provider_workflow.emulator.faults import Fault, Faults
from airflow_provider_workflow.emulator.rules.store import Store
from airflow_provider_workflow.emulator.settings import Settings
from airflow_provider_workflow.emulator.web.app import WITH_FAULTS, build_app
from airflow_provider_workflow.emulator.web.context import Emulator, LoggedRequest
from airflow_provider_workflow.emulator.web.routes import TOKEN_PATH

START_SECONDS = 20
STOP_SECONDS = 10
KEEP_ALIVE_SECONDS = 75
"""If the server closed idle connections before clients do, requests would fail at random."""


class EmulatorServer:
    """
    A workflow service on a real socket.

    It accepts requests when :meth:`start` (or ``with``) returns. ``store`` has the rules, whose public
    methods may be called from any thread while requests are served.

    :param clock: the machine's clock by default.
    :param port: port to listen on; 0 picks a free port.
    :param state_path: SQLite file for the state; None keeps it in memory.
    :param host: host name or IP address to listen on; requests must name it, or the loopback of this machine.
    :param inboxes: names of inboxes that exist from the start, and after a reset too.
    :param settings: fields of :class:`airflow_provider_workflow.emulator.settings.Settings`.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        port: int = 0,
        state_path: str | Path | None = None,
        host: str = "127.0.0.1",
        inboxes: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        self.store = Store(clock, Settings(**settings), state_path)
        self.emulator = Emulator(self.store, Faults(WITH_FAULTS), host, tuple(inboxes))
        self.emulator.open_inboxes()
        self.host = host
        self.port = port
        self._server: ReadyServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> EmulatorServer:
        """
        Start the server.

        :raises OSError: the port is in use, or the host is not one of this machine.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listener = socket.create_server((self.host, self.port), family=family, backlog=2048)
        except (OSError, OverflowError) as error:
            self.store.close()
            reason = getattr(error, "strerror", None) or error
            raise OSError(f"cannot listen on port {self.port} of {self.host}: {reason}") from None
        self.port = listener.getsockname()[1]
        self._server = ReadyServer(configuration(self.emulator))
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="workflow-emulator", daemon=True
        )
        self._thread.start()
        if not self._server.ready.wait(START_SECONDS):
            raise TimeoutError(f"the emulator does not answer after {START_SECONDS} s")
        return self

    def stop(self) -> None:
        """Stop listening, end open streams and held requests, close the state file."""
        if self._server is not None and self._thread is not None:
            self.emulator.holds.release(drop=True)
            self.emulator.streams.close()
            self._server.should_exit = True
            self._thread.join(STOP_SECONDS)
        self.store.close()

    def __enter__(self) -> EmulatorServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def base_url(self) -> str:
        """Base URL of the API and of the authorization page, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def token_url(self) -> str:
        """URL of the token endpoint."""
        return f"{self.base_url}{TOKEN_PATH}/"

    @property
    def client_id(self) -> str:
        """Credentials of the only application."""
        return self.store.settings.client_id

    @property
    def client_secret(self) -> str:
        """Credentials of the only application."""
        return self.store.settings.client_secret

    @property
    def requests(self) -> list[LoggedRequest]:
        """The latest requests, oldest first, without control calls."""
        return list(self.emulator.log)

    def count(self, operation: str) -> int:
        """The number of requests of an operation (``lease``, ``ack``, ``token`` ...) since the last reset."""
        return self.emulator.counts[operation]

    def connection(self) -> dict[str, Any]:
        """The fields of an Airflow connection to this server."""
        return {
            "conn_type": "workflow",
            "host": self.base_url,
            "login": self.client_id,
            "password": self.client_secret,
            "extra": {
                "oauth_url": self.token_url,
                "auth_url": self.base_url,
                "redirect_uri": self.store.settings.redirect_uris[0],
            },
        }

    def connection_json(self) -> str:
        """The value of ``AIRFLOW_CONN_WORKFLOW_DEFAULT``."""
        return json.dumps(self.connection())

    def token(self) -> str:
        """Issue an app access token, without a request."""
        return self.store.tokens.issue().value

    def open_inbox(self, name: str) -> str:
        """Create an active inbox unless it exists; return its id."""
        return self.store.inboxes.open(name).id

    def put(self, inbox: str, *payloads: Any, **options: Any) -> list[Any]:
        """
        Put messages into an inbox, which is created unless it exists.

        :param inbox: its name or id.
        :param payloads: one per message.
        :param options: ``ids`` and ``attributes`` of
            :meth:`airflow_provider_workflow.emulator.rules.queues.Messages.put`.
        :return: the ids of the messages; empty if the inbox dropped them.
        """
        return self.store.messages.put(self.open_inbox(inbox), payloads, **options)

    def summary(self, inbox: str) -> dict[str, Any]:
        """Describe an inbox, given by name or id: its messages, leases and counters."""
        return self.store.messages.summary(self.store.inboxes.find(inbox).id)

    def statuses(self, inbox: str) -> dict[str, str]:
        """Status of each message: ``available``, ``leased``, ``acked`` or ``quarantined``, by id."""
        return {message["id"]: message["status"] for message in self.summary(inbox)["messages"]}

    def assert_acknowledged(self, inbox: str, message_ids: Iterable[Any]) -> None:
        """
        Assert that exactly these messages of an inbox were acknowledged.

        :raises AssertionError: the text names the messages that differ.
        """
        statuses, expected = self.statuses(inbox), set(message_ids)
        acknowledged = {message_id for message_id, status in statuses.items() if status == "acked"}
        if missing := expected - acknowledged:
            raise AssertionError(f"not acknowledged in {inbox!r}: {missing}; statuses: {statuses}")
        if more := acknowledged - expected:
            raise AssertionError(f"acknowledged in {inbox!r} too: {more}")

    def advance(self, seconds: float) -> None:
        """Move the service's clock, past the end of a lease for instance."""
        self.store.clock.advance(seconds)

    def fault(self, kind: str, operation: str | None = None, **fields: Any) -> Fault:
        """
        Make requests fail, one by default.

        The arguments are the fields of :class:`airflow_provider_workflow.emulator.faults.Fault`.
        """
        return self.emulator.faults.add(kind=kind, operation=operation, **fields)

    def wait_until_held(self, count: int = 1, timeout: float = 10) -> list[dict[str, Any]]:
        """Block until ``count`` requests are held by faults, at most ``timeout`` seconds."""
        return self.emulator.holds.wait_until_held(count, timeout)

    def release(self, held_id: int | None = None, *, drop: bool = False) -> int:
        """Release a held request, or all; ``drop`` closes the connection instead."""
        return self.emulator.holds.release(held_id, drop=drop)

    def reset(self) -> None:
        """Reset everything, on the same socket; for use between tests."""
        self.emulator.reset()


class TransportProtocol(HttpToolsProtocol):
    """Gives the application the transport of the connection, which some faults close."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"connection": {"transport": self.transport}}


class ReadyServer(uvicorn.Server):
    """Sets ``ready`` when it accepts requests."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


def configuration(emulator: Emulator) -> uvicorn.Config:
    """The configuration of uvicorn: no logs, and a longer keep-alive than that of clients."""
    return uvicorn.Config(
        build_app(emulator),
        http=TransportProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,  # web/app.py sends the date of the emulator's clock
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=2,
    )
