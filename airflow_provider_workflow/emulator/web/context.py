"""What the handlers of requests act on, and how they are declared."""

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
    The service (``store``) and what surrounds it on the network.

    :param store: the rules.
    """

    store: Store
    faults: Faults = field(default_factory=Faults)
    log: RequestLog = field(default_factory=RequestLog)
    holds: HeldRequests = field(default_factory=HeldRequests)
    streams: Streams = field(default_factory=Streams)
    webhooks: Webhooks = field(default_factory=Webhooks)

    def reset(self) -> None:
        """Forget everything: what is stored and logged, faults, held requests, open streams."""
        self.faults.clear()
        self.holds.release(drop=True)
        self.streams.close()
        self.store.reset()
        self.log.clear()
        self.webhooks.clear()


Handler = Callable[[Emulator, Request], Awaitable[Response]]
"""Has the effect of a request. It may raise ServiceError, which becomes its response."""


@dataclass(frozen=True)
class Operation:
    """
    One call of the service.

    :param name: by which faults, log and counters know it.
    :param path: in the form of Starlette's routes.
    :param family: the group whose rate limit it counts for; ``page`` has none, and ``control`` is
        neither logged nor faulted.
    """

    name: str
    method: str
    path: str
    family: str
    handler: Handler
