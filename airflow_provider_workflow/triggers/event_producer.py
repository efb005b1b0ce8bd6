"""
The producer of asset events with messages: it leases them, and acknowledges those that Airflow has stored.

Airflow reports a batch as stored even for a watcher without an event: if its filter raised, or was cancelled
before its ``yield``, or between the ``yield`` and the moment when Airflow took the event; and if the DAG of
the watcher was paused just before, in which case Airflow drops the event and ends the watcher. So each
watcher records on the batch what it selects, and that Airflow took its events; and an acknowledgement waits
for some seconds, and is sent only if the watchers are still running.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer
from cachetools import LRUCache

from airflow_provider_workflow import clock, observers, types
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.errors import (
    ConflictError,
    InboxPausedError,
    InvalidRequestError,
    LeaseExpiredError,
    NotFoundError,
    TransportError,
)
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.dispatch.lease import HeldLease, delivery_count
from airflow_provider_workflow.triggers.event_batch import Batch, Stream, encode, parts_of
from airflow_provider_workflow.triggers.polling import (
    LONGEST_ANSWER_SECONDS,
    Faults,
    InboxState,
    explained,
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

GATHER_SECONDS = 2.0
"""Delay before the first lease, so that the other watchers of the inbox have started."""
MOST_UNDECIDED = 8
"""Maximum number of batches that are not stored, or not acknowledged; at this limit nothing is leased."""
ACKNOWLEDGE_DELAY_SECONDS = 3.0
"""
Delay of an acknowledgement after Airflow has reported its event as stored. If the DAG was paused just before,
Airflow drops the event, reports it as stored, and ends the watcher within this time.
"""
PAUSES = (5.0, 10.0, 20.0, 40.0, 60.0)
"""Seconds between attempts to acknowledge; the last one repeats."""
FINAL = (InvalidRequestError, NotFoundError, ConflictError)
"""Errors of an acknowledgement that are not retried."""
CLOSING_SECONDS = 1.0
"""How long a producer that closes tries to acknowledge and release."""
MOST_REMEMBERED = 10_000
"""Maximum number of rejected messages of which a producer knows that they were rejected."""

closing_streams: set[asyncio.Task[None]] = set()


class InboxProducer(SharedStreamProducer):
    """
    Leases the messages of one inbox for all of its watchers in a triggerer.

    No method raises, as Airflow would fail all its watchers; ``advance`` and ``aclose`` do not wait.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.client: AsyncWorkflowClient | None = None
        self._exits = AsyncExitStack()
        self._state = InboxState(stream.inbox, "leased", log)
        self._inbox_id = ""
        self._pending: asyncio.Future[types.LeaseAnswer] | None = None
        self.held_batches: set[Batch] = set()
        self._finishing: set[asyncio.Task[None]] = set()
        self._progress = asyncio.Event()
        self._rejected: LRUCache[str, asyncio.Event] = LRUCache(MOST_REMEMBERED)
        self._unmatched_logged = False
        self._fails_to_acknowledge = False

    async def open_stream(self) -> AsyncIterator[tuple[Batch, Batch]]:
        """Yield batches without end, ``min_interval`` apart."""
        await clock.async_sleep(GATHER_SECONDS)
        async with aclosing(watch_forever(self._leases, self.stream.inbox, log)) as leases:
            async for lease in leases:
                for batch in await self._batches(lease):
                    if lease.seconds_left() <= 0:
                        break
                    batch.is_offered = True
                    yield batch, batch
                    await clock.async_sleep(self.stream.min_interval)
                    while sum(held.is_offered for held in self.held_batches) >= MOST_UNDECIDED:
                        self._progress.clear()
                        await self._progress.wait()

    def get_advance_lane(self, broker_payload: Batch) -> Hashable:
        """A lane for each batch, as messages may be acknowledged in any order."""
        return id(broker_payload)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Decide about the messages of each batch; tasks send the calls."""
        for offered, outcome in batch:
            try:
                self._decide(offered, outcome.acked, outcome.failed, outcome.rejected)
            except Exception:
                self._log_internal_error()
                self._let_go(offered)

    async def aclose(self) -> None:
        """Begin to release what is held, in a task that continues while Airflow closes its other streams."""
        # Decided now, as all watchers end while the triggerer stops.
        now = clock.monotonic()
        stored = {
            batch: batch.stored if now >= batch.acknowledge_from and batch.watchers_remain() else []
            for batch in self.held_batches
        }
        closing = asyncio.create_task(self._close(stored), name=f"workflow-closing[{self.stream.inbox}]")
        closing_streams.add(closing)
        closing.add_done_callback(closing_streams.discard)
        # Let the task start: if it were cancelled before, it would never run.
        await asyncio.sleep(0)

    # Leasing

    async def _leases(self, faults: Faults) -> AsyncGenerator[HeldLease, None]:
        """Lease each time that the next lease is requested, until an error is raised."""
        stream = self.stream
        client = await self._connect()
        inbox = await look_up(client, stream.inbox)
        self._inbox_id = inbox["id"]
        begins = not self._state.is_known
        self._state.seen(str(inbox["status"]), inbox.get("paused_reason"))
        if begins:
            log_wait(log, client, stream)
        async with wake_ups_of(client, inbox["id"], stream.wake_on_events) as wake_up:
            while True:
                yield await poll(partial(self._lease, client, inbox["id"]), wake_up, stream, faults)

    async def _connect(self) -> AsyncWorkflowClient:
        """Open a client with the current connection, which may have been fixed; close the former client."""
        from airflow_provider_workflow.hooks.workflow import WorkflowHook

        exits = AsyncExitStack()
        hook = WorkflowHook(self.stream.workflow_conn_id)
        self.client = await exits.enter_async_context(hook.async_client())
        before, self._exits = self._exits, exits
        await before.aclose()
        return self.client

    async def _lease(self, client: AsyncWorkflowClient, inbox_id: str) -> HeldLease | None:
        """Lease once; None if there are no messages."""
        if self._pending is None:
            call = api.lease_messages(inbox_id, self.stream.lease_limit, self.stream.lease_seconds)
            self._pending = asyncio.ensure_future(client.send(call))
        # Not awaited directly: if the poller is cancelled, the answer is needed to release the lease.
        await clock.wait({self._pending}, LONGEST_ANSWER_SECONDS)
        if not self._pending.done():
            text = f"no lease request was answered within {LONGEST_ANSWER_SECONDS:.0f} s"
            raise TransportError(text, sent=True)
        answered, self._pending = self._pending, None
        try:
            answer = answered.result()
        except InboxPausedError as paused:
            self._state.seen(PAUSED, paused.paused_reason)
            return None
        attributes = answer.get("inbox_attributes") or {}
        if attributes.get("status"):
            self._state.seen(str(attributes["status"]), attributes.get("paused_reason"))
        lease = HeldLease.of(inbox_id, answer, self.stream.lease_seconds)
        if lease is None:
            await quarantine.check_in_loop(client, self.stream.inbox)
        return lease

    async def _batches(self, lease: HeldLease) -> list[Batch]:
        """Hold a lease, and split it into batches, one for each event; rejected messages are left out."""
        self.held_batches = {batch for batch in self.held_batches if batch.lease.seconds_left() > 0}
        whole = Batch(lease, [], [message["id"] for message in lease.messages])
        self.held_batches.add(whole)
        try:
            messages, causes = await asyncio.to_thread(encode, lease.messages)
            for message_id, cause in causes.items():
                self.reject(whole, message_id, cause, asyncio.Event())
            offered = [message for message in messages if not self._is_rejected(message.id)]
        except Exception:
            self._log_internal_error()
            return []
        self.held_batches.remove(whole)
        batches = [Batch(lease, part, [message.id for message in part]) for part in parts_of(offered)]
        self.held_batches.update(batches)
        return batches

    # The outcome of the messages

    def _is_rejected(self, message_id: str) -> bool:
        """Whether a message was rejected, by a watcher that is still running."""
        ended = self._rejected.get(message_id)
        return ended is not None and not ended.is_set()

    def reject(self, batch: Batch, message_id: str, cause: str, ended: asyncio.Event) -> None:
        """Leave a message to its lease; the service quarantines it in the end."""
        if message_id not in self._rejected:
            inbox_id, conn_id = batch.lease.inbox_id, self.stream.workflow_conn_id
            observers.tell("rejected", inbox=inbox_id, conn_id=conn_id)
            log.error(
                "Inbox %s: message %s is rejected, and left to the service to be quarantined: %s",
                self.stream.inbox,
                plain(message_id),
                plain(cause),
            )
        self._rejected[message_id] = ended
        batch.holds_no_longer([message_id])

    def _decide(self, batch: Batch, acked: int, failed: int, rejected: int) -> None:
        """Decide about the messages of a batch; the numbers are those of :meth:`Batch.report`."""
        if not acked + failed + rejected:
            # There was no watcher: the messages are released when the producer closes.
            batch.is_offered = False
            self._progress.set()
            return
        for selection in batch.selections:
            for message_id, cause in selection.causes.items():
                self.reject(batch, message_id, cause, selection.ended)
        batch.stored, unmatched = batch.report(acked, failed, rejected)
        self.leave_unmatched(batch, unmatched)
        batch.acknowledge_from = clock.monotonic() + ACKNOWLEDGE_DELAY_SECONDS
        finishing = asyncio.create_task(self._finish(batch), name=f"workflow-finishing[{self.stream.inbox}]")
        self._finishing.add(finishing)
        finishing.add_done_callback(self._finishing.discard)

    def leave_unmatched(self, batch: Batch, unmatched: list[str]) -> None:
        """Leave unmatched messages to their lease, except on their first delivery: they are released once."""
        if unmatched and not self._unmatched_logged:
            self._unmatched_logged = True
            log.warning(
                "Inbox %s: no watcher in this triggerer selects message %s. Such messages are released once;"
                " later their lease expires, until the service quarantines them",
                self.stream.inbox,
                plain(unmatched[0]),
            )
        first = {message["id"] for message in batch.lease.messages if delivery_count(message) == 1}
        batch.holds_no_longer(set(unmatched) - first)

    async def _finish(self, batch: Batch) -> None:
        """Release the messages of a batch that must be redelivered, and acknowledge the others."""
        try:
            rest = set(batch.ids).difference(batch.stored)
            await self._try_to_end(api.release_messages, batch, rest)
            batch.holds_no_longer(rest)
            if batch.stored:
                await clock.async_sleep(max(0.0, batch.acknowledge_from - clock.monotonic()))
                await self._acknowledge(batch)
        finally:
            self._let_go(batch)

    def _let_go(self, batch: Batch) -> None:
        """Hold a batch no longer; another one may be leased."""
        self.held_batches.discard(batch)
        self._progress.set()

    async def _acknowledge(self, batch: Batch) -> None:
        """Acknowledge a batch, with retries until its lease ends; or release it if a watcher has ended."""
        if not batch.watchers_remain():
            await self._try_to_end(api.release_messages, batch, batch.ids)
            return
        for pause in chain(PAUSES, repeat(PAUSES[-1])):
            error = await self._end(api.acknowledge_messages, batch, batch.ids)
            if error is None:
                self._fails_to_acknowledge = False
                return
            if isinstance(error, FINAL) or clock.now() + pause >= batch.lease.ends_at:
                self._log_failure(api.acknowledge_messages, len(batch.ids), error)
                return
            if not self._fails_to_acknowledge:
                self._fails_to_acknowledge = True
                text = "Inbox %s: acknowledgements fail; retrying: %s"
                log.warning(text, self.stream.inbox, explained(error))
            await clock.async_sleep(pause)

    async def _try_to_end(self, make: Any, batch: Batch, ids: Collection[str]) -> None:
        """Acknowledge or release messages of a batch; if that fails, their lease expires instead."""
        error = await self._end(make, batch, ids)
        if error is not None:
            self._log_failure(make, len(ids), error)

    async def _end(self, make: Any, batch: Batch, ids: Collection[str]) -> Exception | None:
        """
        Acknowledge or release messages of a batch; return the error, if any.

        :param make: ``api.acknowledge_messages`` or ``api.release_messages``.
        """
        inbox, lease = self.stream.inbox, batch.lease
        message_ids = [message_id for message_id in batch.ids if message_id in ids]
        if not message_ids:
            return None
        try:
            answer = await self._connected().send(make(lease.inbox_id, lease.lease_id, message_ids))
        except LeaseExpiredError:
            text = "Inbox %s: a lease had expired; %d messages of it are redelivered"
            log.info(text, inbox, len(message_ids))
        except Exception as error:
            return error
        else:
            done = len(answer.get("results") or [])
            if make is api.acknowledge_messages and done < len(message_ids):
                text = "Inbox %s: %d of %d messages were acknowledged; the others are redelivered"
                log.info(text, inbox, done, len(message_ids))
        batch.holds_no_longer(message_ids)
        return None

    def _connected(self) -> AsyncWorkflowClient:
        """:raises TransportError: there is no client, before the first connection or after the last."""
        if self.client is None:
            raise TransportError("there is no connection to the service at the moment", sent=False)
        return self.client

    def _log_failure(self, make: Any, count: int, error: Exception) -> None:
        log.warning(
            "Inbox %s: %d messages are redelivered when their lease expires, as they could not be %s: %s",
            self.stream.inbox,
            count,
            "acknowledged" if make is api.acknowledge_messages else "released",
            explained(error),
        )

    def _log_internal_error(self) -> None:
        log.exception(
            "Inbox %s: an internal error; its messages are redelivered when their lease expires",
            self.stream.inbox,
        )

    # Closing

    async def _close(self, stored: Mapping[Batch, list[str]]) -> None:
        """
        Acknowledge and release what is held, and close the client.

        :param stored: ids of the messages to acknowledge, for each batch; the others are released.
        """
        try:
            await self._end_all(stored)
        except asyncio.CancelledError:
            # The event loop is ending: it cancels all tasks once, and waits for them.
            await self._end_all(stored)
        finally:
            self.client = None
            if self._pending is not None:
                self._pending.cancel()
                # Awaited, so that an exception of it is retrieved.
                await asyncio.gather(self._pending, return_exceptions=True)
            await self._exits.aclose()

    async def _end_all(self, stored: Mapping[Batch, list[str]]) -> None:
        """Make a last attempt, at all batches at the same time."""
        for finishing in self._finishing:
            finishing.cancel()
        tasks = {asyncio.ensure_future(self._release_pending())}
        tasks |= {asyncio.ensure_future(self._end_batch(batch, set(ids))) for batch, ids in stored.items()}
        try:
            await clock.wait(tasks, CLOSING_SECONDS)
        finally:
            for task in tasks:
                task.cancel()

    async def _end_batch(self, batch: Batch, stored: set[str]) -> None:
        await self._try_to_end(api.acknowledge_messages, batch, stored)
        await self._try_to_end(api.release_messages, batch, set(batch.ids) - stored)

    async def _release_pending(self) -> None:
        """Release the messages of a pending lease request."""
        if self._pending is not None:
            await asyncio.wait({self._pending})
            with suppress(Exception):  # its messages are redelivered when their lease expires
                if lease_id := self._pending.result().get("lease_id"):
                    await self._connected().send(api.release_messages(self._inbox_id, lease_id))
