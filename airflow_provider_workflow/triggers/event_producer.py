"""
The producer of asset events with messages: it leases them, and acknowledges those that Airflow has stored.

Airflow reports a batch as stored even for a watcher without an event: if its filter raised or was cancelled
before Airflow took the event, or if the DAG of the watcher was paused just before. So each watcher records on
the batch what it selects, and that Airflow took its events; and an acknowledgement waits for some seconds,
and is sent only if the watchers are still running.

A raw payload in an event can end the triggerer, so messages are one ASCII string.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome, SharedStreamProducer

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.client import api, tolerant_json
from airflow_provider_workflow.client.errors import InboxPausedError, WorkflowError
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.quarantine import check_quarantine_in_loop
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.source import SourceError, problem_of
from airflow_provider_workflow.text import counted, escaped
from airflow_provider_workflow.triggers.polling import (
    FIRST_PAUSE_SECONDS,
    InboxHealth,
    InboxSession,
    PollingOptions,
    log_text,
    open_session,
)

if TYPE_CHECKING:
    from airflow_provider_workflow.client.async_client import AsyncWorkflowClient

log = logging.getLogger(__name__)

MAX_EVENT_LENGTH = 1_000_000
"""Maximum characters of the messages in one event; a longer message has an event of its own."""
PART_SECONDS = 3.0
"""Seconds between the events of one lease, which must all be stored before it ends."""
GATHER_SECONDS = 2.0
"""Delay before the first lease, so that the other watchers of the inbox have started."""
MAX_UNSETTLED_BATCHES = 8
"""Maximum number of batches that are not stored, or not acknowledged; at this limit nothing is leased."""
ACKNOWLEDGE_DELAY_SECONDS = 3.0
"""
Delay of an acknowledgement after Airflow has reported its event as stored. If the DAG was paused just before,
Airflow drops the event, reports it as stored, and ends the watcher within this time.
"""
MAX_ACKNOWLEDGE_PAUSE_SECONDS = 60.0
"""Maximum time between two attempts to acknowledge."""
CLOSING_SECONDS = 1.0
"""How long a producer that closes tries to release its messages."""


NOTHING_REPORTED = AdvanceOutcome(acked=0, failed=0)


class Watcher(PollingOptions, Protocol):
    """What a producer uses of the triggers whose events it makes; they are its keys for them."""

    has_ended: bool
    lease_limit: int
    lease_seconds: int
    min_interval: float


class EventMessage(NamedTuple):
    """
    A leased message, encoded for events.

    :param content: ``id``, ``created_at``, ``payload``, ``message_attributes``.
    :param text: the same as ASCII JSON.
    """

    id: str
    content: dict[str, Any]
    text: str


@dataclass(eq=False)
class Batch:
    """
    The messages of a lease, or a part of them, that Airflow passes to all watchers of an inbox.

    :param selected: ids of the messages in the events of each watcher.
    :param emitted: watchers of which Airflow took all events: each ``yield`` has returned.
    :param outcome: what Airflow reports, once ``reported`` is set.
    """

    lease: HeldLease
    messages: list[EventMessage]
    selected: dict[Watcher, frozenset[str]] = field(default_factory=dict)
    emitted: set[Watcher] = field(default_factory=set)
    outcome: AdvanceOutcome = NOTHING_REPORTED
    reported: asyncio.Event = field(default_factory=asyncio.Event)

    def is_stored(self) -> bool:
        """Whether Airflow has stored all events of all watchers, which are still running."""
        return (
            self.outcome.is_clean
            and len(self.selected) >= self.outcome.acked
            and not any(
                watcher.has_ended or watcher not in self.emitted
                for watcher, ids in self.selected.items()
                if ids
            )
        )

    def ids(self, *, selected: bool) -> list[str]:
        """The ids of messages that any watcher selects, or of the others."""
        ids: frozenset[str] = frozenset().union(*self.selected.values())
        return [message.id for message in self.messages if (message.id in ids) is selected]


class InboxProducer(SharedStreamProducer):
    """
    Leases the messages of one inbox for all of its watchers in a triggerer.

    No method raises, as Airflow would fail all its watchers.

    :param options: a watcher with the arguments that all of them share.
    """

    def __init__(self, options: Watcher) -> None:
        self.options = options
        self._settling: set[asyncio.Task[None]] = set()
        self._unmatched_logged = False

    async def open_stream(self) -> AsyncIterator[tuple[Batch, Batch]]:
        """Yield batches without end, those of two leases ``min_interval`` apart."""
        options = self.options
        health = InboxHealth(options.inbox, options.workflow_conn_id, log)
        await clock.async_sleep(GATHER_SECONDS)
        while True:
            try:
                # The connection is read each time: it may have been fixed.
                async with open_session(options, health) as session:
                    health.seen(session.inbox)
                    while True:
                        lease = await self._lease(session, health)
                        health.succeeded()
                        if lease is None:
                            await session.waits.wait()
                            continue
                        session.waits.reset()
                        messages = await asyncio.to_thread(encode, lease.deliveries)
                        for part in _parts_of(messages):
                            if lease.seconds_left() <= 0:
                                break
                            batch = Batch(lease, part)
                            await self._settle_later(batch)
                            yield batch, batch
                            await clock.async_sleep(min(options.min_interval, PART_SECONDS))
                            while len(self._settling) >= MAX_UNSETTLED_BATCHES:
                                await asyncio.wait(self._settling, return_when=asyncio.FIRST_COMPLETED)
                        await clock.async_sleep(max(0.0, options.min_interval - PART_SECONDS))
            except Exception as error:
                await clock.async_sleep(health.failed(error))

    def get_advance_lane(self, broker_payload: Batch) -> Hashable:
        """A lane for each batch, as messages may be acknowledged in any order."""
        return id(broker_payload)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Pass the outcomes of batches to the tasks that send the calls."""
        for offered, outcome in batch:
            offered.outcome = outcome
            offered.reported.set()

    async def aclose(self) -> None:
        """Release what is not acknowledged."""
        for settling in self._settling:
            settling.cancel()
        if self._settling:
            with suppress(TimeoutError):
                async with clock.timeout(CLOSING_SECONDS):
                    await asyncio.wait(self._settling)

    async def _lease(self, session: InboxSession, health: InboxHealth) -> HeldLease | None:
        """Lease once; None if there are no messages."""
        inbox_id, options = session.inbox["id"], self.options
        conn_id = options.workflow_conn_id
        lease = None
        try:
            call = api.lease_messages(inbox_id, options.lease_limit, options.lease_seconds)
            answer = await session.client.send(call)
            attributes = answer.get("inbox_attributes") or {}
            lease = HeldLease.of(inbox_id, answer, options.lease_seconds, conn_id)
        except InboxPausedError as paused:
            attributes = {"status": types.PAUSED, "paused_reason": paused.paused_reason}
        problem = problem_of(attributes, name_of(options.inbox, conn_id), conn_id)
        if lease is None:
            await check_quarantine_in_loop(session.client, inbox_id)
            if problem is not None and problem.kind != types.PAUSED:
                raise SourceError(problem)
        if attributes.get("status") != types.FAILED:  # one that has a last lease
            health.seen(attributes)
        return lease

    # The outcome of the messages

    async def _settle_later(self, batch: Batch) -> None:
        # The client is opened now: while a triggerer stops, no connection can be read.
        exits = AsyncExitStack()
        hook = WorkflowHook(self.options.workflow_conn_id)
        client = await exits.enter_async_context(hook.async_client())
        settling = asyncio.create_task(self._settle(batch, client, exits))
        self._settling.add(settling)
        settling.add_done_callback(self._settling.discard)

    async def _settle(self, batch: Batch, client: AsyncWorkflowClient, exits: AsyncExitStack) -> None:
        """Acknowledge a batch when Airflow has stored it, or release it; never raise."""
        is_stored = False
        with suppress(asyncio.CancelledError):  # the producer closes
            await batch.reported.wait()
            await clock.async_sleep(ACKNOWLEDGE_DELAY_SECONDS)
            is_stored = batch.is_stored()
        try:
            async with exits:
                if is_stored:
                    await self._acknowledge(client, batch)
                else:
                    ids = [message.id for message in batch.messages]
                    await client.send(api.release_messages(batch.lease.inbox_id, batch.lease.lease_id, ids))
        except Exception as error:
            log.warning(
                "Inbox %s: %s redelivered when the lease expires, neither acknowledged nor released: %s",
                name_of(batch.lease.inbox_id, self.options.workflow_conn_id),
                counted(len(batch.messages), "message is", "messages are"),
                log_text(error),
            )

    async def _acknowledge(self, client: AsyncWorkflowClient, batch: Batch) -> None:
        """
        Acknowledge the selected messages, again after transient errors; leave the others to their lease.

        :raises WorkflowError: an error is permanent, or the lease ends.
        """
        unmatched = batch.ids(selected=False)
        if unmatched and not self._unmatched_logged:
            self._unmatched_logged = True
            log.warning(
                "Inbox %s: no watcher in this triggerer selects message %s. Such messages are left to their"
                " lease, until the service quarantines them",
                name_of(batch.lease.inbox_id, self.options.workflow_conn_id),
                escaped(unmatched[0]),
            )
        ids, pause = batch.ids(selected=True), FIRST_PAUSE_SECONDS
        while ids:
            try:
                await client.send(api.acknowledge_messages(batch.lease.inbox_id, batch.lease.lease_id, ids))
                return
            except WorkflowError as error:
                if not error.transient or clock.now() + pause >= batch.lease.ends_at:
                    raise
            await clock.async_sleep(pause)
            pause = min(pause * 2, MAX_ACKNOWLEDGE_PAUSE_SECONDS)


def encode(deliveries: Sequence[Delivery]) -> list[EventMessage]:
    """The messages, encoded. It takes long."""
    return [
        EventMessage(delivery.id, delivery.message, tolerant_json.encoded(delivery.message))
        for delivery in deliveries
    ]


def event_payload(inbox_id: str, messages: Sequence[EventMessage]) -> dict[str, Any]:
    """The payload of an event; ``messages_of`` decodes it."""
    text = ", ".join(message.text for message in messages)
    return {"inbox_id": escaped(inbox_id), "count": len(messages), "messages": f"[{text}]"}


def _parts_of(messages: Sequence[EventMessage]) -> Iterator[list[EventMessage]]:
    """Split messages into lists that fit an event."""
    part: list[EventMessage] = []
    size = 0
    for message in messages:
        if part and size + len(message.text) > MAX_EVENT_LENGTH:
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message.text)
    if part:
        yield part
