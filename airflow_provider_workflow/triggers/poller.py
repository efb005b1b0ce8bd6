"""Leases the messages of one inbox, again and again, for all of its watchers in one triggerer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.errors import InboxPausedError, TransportError
from airflow_provider_workflow.client.inboxes import PAUSED
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.session import note_nameless
from airflow_provider_workflow.triggers import stream as streams
from airflow_provider_workflow.triggers.retrying import (
    LONGEST_ANSWER_SECONDS,
    Faults,
    InboxState,
    patiently,
    persistently,
)
from airflow_provider_workflow.triggers.stream import Stream
from airflow_provider_workflow.triggers.wakeup import bell_of, find_inbox, log_wait, wait_for

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient

log = logging.getLogger(__name__)


class Leased(NamedTuple):
    """A lease and the inbox that it was made at."""

    inbox_id: str
    lease: HeldLease


class Poller:
    """
    Waits for messages and leases them, through all faults.

    Its client stays open when the polling has ended, for acknowledgements; whoever made it closes it.

    :param stream: what to poll, and how.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.inbox_id = ""
        self.asking: asyncio.Future[types.Lease] | None = None
        self._asked_at = 0.0
        self._client: AsyncWorkflowClient | None = None
        self._exits = AsyncExitStack()
        self._state = InboxState(stream.inbox, "leased", log)
        self._has_begun = False

    @property
    def client(self) -> AsyncWorkflowClient:
        """
        The client of the moment.

        :raises TransportError: there is none yet, or no more.
        """
        if self._client is None:
            raise TransportError("there is no connection to the service at the moment", sent=False)
        return self._client

    def leases(self) -> AsyncGenerator[Leased, None]:
        """
        Lease for ever, whenever the next one is asked for. Nothing is raised: Airflow would begin anew
        every 2 s, without any back-off.
        """
        return persistently(self._watch, inbox=self.stream.inbox, log=log)

    async def close(self) -> None:
        """Close the connection, and ask no more: what came of a lease now would be nobody's."""
        self._client = None
        if self.asking is not None:
            self.asking.cancel()
            # Waited for, so that whatever came of it is seen.
            await asyncio.gather(self.asking, return_exceptions=True)
        await self._exits.aclose()

    async def _watch(self, faults: Faults) -> AsyncGenerator[Leased, None]:
        stream = self.stream
        client = await self._connect()
        self.inbox_id = inbox_id = await find_inbox(client, stream.inbox)
        streams.begin(stream, inbox_id)
        try:
            async with bell_of(client, inbox_id, stream.wake_on_events) as bell:
                if not self._has_begun:
                    log_wait(log, client, stream)
                    self._has_begun = True
                while True:
                    lease = await patiently(
                        partial(self._lease, client, inbox_id),
                        partial(wait_for, bell),
                        rest=partial(wait_for, None) if bell is not None else None,
                        inbox=stream.inbox,
                        poll_interval=stream.poll_interval,
                        max_poll_interval=stream.max_poll_interval,
                        log=log,
                        faults=faults,
                    )
                    yield Leased(inbox_id, lease)
        finally:
            streams.end(stream, inbox_id)

    async def _connect(self) -> AsyncWorkflowClient:
        """A client by the connection as it is now: it may have been mended. The one before is closed."""
        from airflow_provider_workflow.hooks.workflow import WorkflowHook

        exits = AsyncExitStack()
        hook = WorkflowHook(self.stream.workflow_conn_id)
        self._client = await exits.enter_async_context(hook.async_client())
        before, self._exits = self._exits, exits
        await before.aclose()
        return self._client

    async def _lease(self, client: AsyncWorkflowClient, inbox_id: str) -> HeldLease | None:
        """Lease once; None where there is nothing."""
        if self.asking is None:
            call = api.lease_messages(inbox_id, self.stream.lease_limit, self.stream.lease_seconds)
            self._asked_at = clock.now()
            self.asking = asyncio.ensure_future(client.send(call))
        # Not awaited itself: where the poller is ended its answer is still needed, to give it back.
        await clock.wait({self.asking}, LONGEST_ANSWER_SECONDS)
        if not self.asking.done():
            raise TransportError(f"no lease was answered within {LONGEST_ANSWER_SECONDS:.0f} s", sent=True)
        asking, self.asking = self.asking, None
        try:
            answer = asking.result()
        except InboxPausedError as paused:
            self._state.seen(PAUSED, paused.paused_reason)
            return None
        attributes = answer.get("inbox_attributes") or {}
        if attributes.get("status"):
            self._state.seen(str(attributes["status"]), attributes.get("paused_reason"))
        lease = HeldLease.of(answer, self._asked_at, self.stream.lease_seconds, client.settings.timeout)
        if lease is None:
            await quarantine.look_in_loop(client, self.stream.inbox)
        else:
            note_nameless(self.stream.inbox, lease, self.stream.workflow_conn_id)
        return lease
