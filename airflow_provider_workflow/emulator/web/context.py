"""Everything that a handler may need, in one hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_workflow.emulator.faults import Faults
from airflow_provider_workflow.emulator.store import Store
from airflow_provider_workflow.emulator.web.holds import Holds
from airflow_provider_workflow.emulator.web.log import RequestLog
from airflow_provider_workflow.emulator.web.stream import Streams
from airflow_provider_workflow.emulator.web.webhook import Webhooks
from airflow_provider_workflow.emulator.web.wire import Answer, Request


@dataclass
class Emulator:
    """
    The service (``store``) and what surrounds it on the wire.

    :param store: the rules.
    """

    store: Store
    faults: Faults = field(default_factory=Faults)
    log: RequestLog = field(default_factory=RequestLog)
    holds: Holds = field(default_factory=Holds)
    streams: Streams = field(default_factory=Streams)
    webhooks: Webhooks = field(default_factory=Webhooks)

    def reset(self) -> None:
        """Begin anew: nothing stored, no faults, nobody held, no stream open, nothing logged."""
        self.faults.clear()
        self.holds.release(drop=True)
        self.streams.close()
        self.store.reset()
        self.log.clear()
        self.webhooks.clear()


Handler = Callable[[Emulator, Request], Answer]


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
