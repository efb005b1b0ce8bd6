"""The state that request handlers use, and the declaration of operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from airflow_provider_workflow.emulator.faults import Faults
from airflow_provider_workflow.emulator.rules.store import Store
from airflow_provider_workflow.emulator.web.event_stream import Streams
from airflow_provider_workflow.emulator.web.held_requests import HeldRequests
from airflow_provider_workflow.emulator.web.log import RequestLog
from airflow_provider_workflow.emulator.web.webhooks import Webhooks


@dataclass
class Emulator:
    """
    The rules (``store``) and the state of the HTTP layer.

    :param host: host name or IP address that the server listens on.
    :param inboxes: names of inboxes that exist after a reset too.
    """

    store: Store
    host: str = "127.0.0.1"
    inboxes: tuple[str, ...] = ()
    faults: Faults = field(default_factory=Faults)
    log: RequestLog = field(default_factory=RequestLog)
    holds: HeldRequests = field(default_factory=HeldRequests)
    streams: Streams = field(default_factory=Streams)
    webhooks: Webhooks = field(default_factory=Webhooks)

    def reset(self) -> None:
        """Reset everything: stored state, logs, faults, held requests, open streams."""
        self.faults.clear()
        self.holds.release(drop=True)
        self.streams.close()
        self.store.reset()
        self.log.clear()
        self.webhooks.clear()
        self.open_inboxes()

    def open_inboxes(self) -> None:
        """Create those of ``inboxes`` that do not exist."""
        for name in self.inboxes:
            self.store.inboxes.open(name)


Handler = Callable[[Emulator, Request], Awaitable[Response]]
"""Performs a request. A ServiceError that it raises becomes the response."""


@dataclass(frozen=True)
class Operation:
    """
    One call of the service.

    :param name: its name in faults, log and counters.
    :param path: path of a Starlette route.
    :param family: group of its rate limit; ``page`` has none, and ``control`` is neither logged nor
        affected by faults.
    """

    name: str
    method: str
    path: str
    family: str
    handler: Handler
