"""Leases the messages of one inbox continuously, for all its asset watchers in one triggerer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.errors import InboxPausedError, TransportError
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.results import log_nameless
from airflow_provider_workflow.triggers.polling import (
    LONGEST_ANSWER_SECONDS,
    Faults,
    InboxState,
    log_wait,
    look_up,
    poll,
    wake_ups_of,
    watch_forever,
)
from airflow_provider_workflow.types import PAUSED

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stream:
    """
    The arguments of a poller; watchers with the same ones share it.

    The fields are arguments of ``WorkflowInboxEventTrigger``.
    """

    inbox: str
    workflow_conn_id: str
    lease_limit: int
    lease_seconds: int
    min_interval: float
    poll_interval: float
    max_poll_interval: float
    wake_on_events: bool

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Stream:
        """Make a stream from the arguments of a trigger, of which some may be left out."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: arguments[name] for name in names if name in arguments})


class Leased(NamedTuple):
    """A lease and its inbox."""

    inbox_id: str
    lease: HeldLease


class Poller:
    """
    Waits for messages and leases them; it retries after all errors.

    Its client stays open after the polling has ended, for acknowledgements; ``close`` closes it.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.inbox_id = ""
        self.pending: asyncio.Future[types.LeaseAnswer] | None = None
        self._client: AsyncWorkflowClient | None = None
        self._exits = AsyncExitStack()
        self._state = InboxState(stream.inbox, "leased", log)
        self._has_begun = False

    @property
    def client(self) -> AsyncWorkflowClient:
        """
        The current client.

        :raises TransportError: there is no client, before the first connection or after ``close``.
        """
        if self._client is None:
            raise TransportError("there is no connection to the service at the moment", sent=False)
        return self._client

    def leases(self) -> AsyncGenerator[Leased, None]:
        """
        Lease without end, each time that the next lease is requested. It raises nothing: Airflow would
        restart it every 2 s, without any back-off.
        """
        return watch_forever(self._watch, self.stream.inbox, log)

    async def close(self) -> None:
        """Stop leasing, and close the client."""
        self._client = None
        if self.pending is not None:
            self.pending.cancel()
            # Awaited, so that an exception of it is retrieved.
            await asyncio.gather(self.pending, return_exceptions=True)
        await self._exits.aclose()

    async def _watch(self, faults: Faults) -> AsyncGenerator[Leased, None]:
        stream = self.stream
        client = await self._connect()
        self.inbox_id = inbox_id = (await look_up(client, stream.inbox))["id"]
        async with wake_ups_of(client, inbox_id, stream.wake_on_events) as wake_up:
            if not self._has_begun:
                log_wait(log, client, stream)
                self._has_begun = True
            while True:
                lease = await poll(partial(self._lease, client, inbox_id), wake_up, stream, faults)
                yield Leased(inbox_id, lease)

    async def _connect(self) -> AsyncWorkflowClient:
        """Open a client with the current connection, which may have been fixed; close the former client."""
        from airflow_provider_workflow.hooks.workflow import WorkflowHook

        exits = AsyncExitStack()
        hook = WorkflowHook(self.stream.workflow_conn_id)
        self._client = await exits.enter_async_context(hook.async_client())
        before, self._exits = self._exits, exits
        await before.aclose()
        return self._client

    async def _lease(self, client: AsyncWorkflowClient, inbox_id: str) -> HeldLease | None:
        """Lease once; None if there are no messages."""
        if self.pending is None:
            call = api.lease_messages(inbox_id, self.stream.lease_limit, self.stream.lease_seconds)
            self.pending = asyncio.ensure_future(client.send(call))
        # Not awaited directly: if the poller is cancelled, the answer is needed to release the lease.
        await clock.wait({self.pending}, LONGEST_ANSWER_SECONDS)
        if not self.pending.done():
            raise TransportError(
                f"no lease request was answered within {LONGEST_ANSWER_SECONDS:.0f} s", sent=True
            )
        answered, self.pending = self.pending, None
        try:
            answer = answered.result()
        except InboxPausedError as paused:
            self._state.seen(PAUSED, paused.paused_reason)
            return None
        attributes = answer.get("inbox_attributes") or {}
        if attributes.get("status"):
            self._state.seen(str(attributes["status"]), attributes.get("paused_reason"))
        lease = HeldLease.of(answer, self.stream.lease_seconds)
        if lease is None:
            await quarantine.check_in_loop(client, self.stream.inbox)
        else:
            log_nameless(self.stream.inbox, lease, self.stream.workflow_conn_id)
        return lease
