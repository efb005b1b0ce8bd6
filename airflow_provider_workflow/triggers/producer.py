"""The producer of a shared stream in ack mode: leased batches out, acknowledgements back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from contextlib import aclosing

from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.json_steps import Pace
from airflow_provider_workflow.dispatch.lease import slices
from airflow_provider_workflow.triggers import stream as streams
from airflow_provider_workflow.triggers.acknowledging import Acknowledger
from airflow_provider_workflow.triggers.custody import Custody, lasts
from airflow_provider_workflow.triggers.poller import Leased, Poller
from airflow_provider_workflow.triggers.sifting import Sieve
from airflow_provider_workflow.triggers.stream import Stream
from airflow_provider_workflow.triggers.tickets import Choice, Ticket, Watcher
from airflow_provider_workflow.values import plain

log = logging.getLogger(__name__)

GATHER_SECONDS = 2.0
"""Before the first lease: the other watchers of the inbox begin at the same time."""
FAREWELL_SECONDS = 1.0
"""How long a closing producer tries to acknowledge and to give back."""
MOST_UNSETTLED = 8
"""
Batches that wait for Airflow, or to be acknowledged, at most. While it stores nothing, or no acknowledgement
comes through, nothing more is leased.
"""

_farewells: set[asyncio.Task[None]] = set()


class InboxProducer(SharedStreamProducer):
    """
    Polls one inbox for all watchers that agree in their stream.

    Nothing of it raises, as Airflow would fail all its watchers; neither ``advance`` nor ``aclose`` waits.

    :param stream: what to poll, and how.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._poller = Poller(stream)
        self._custody = Custody(stream)
        self._unsettled: set[Ticket] = set()
        self._settled = asyncio.Event()
        self._acknowledger = Acknowledger(stream.inbox, lambda: self._poller.client, self._settled.set)

    async def open_stream(self) -> AsyncIterator[tuple[Ticket, Ticket]]:
        """Batch after batch, ``min_interval`` apart, for ever."""
        await clock.async_sleep(GATHER_SECONDS)
        async with aclosing(self._poller.leases()) as leases:
            async for leased in leases:
                for ticket in self._take(leased):
                    if ticket is None:
                        await asyncio.sleep(0)
                        continue
                    await self._let_watchers_choose(ticket)
                    if not lasts(ticket.lease):
                        break
                    self._unsettled.add(ticket)
                    yield ticket, ticket
                    await clock.async_sleep(self.stream.min_interval)
                    await self._until_there_is_room()

    def get_advance_lane(self, broker_payload: Ticket) -> Hashable:
        """One for each batch: messages are acknowledged in any order, and none waits for another."""
        return id(broker_payload)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Decide what becomes of each message; the acknowledger does it."""
        for ticket, outcome in batch:
            self._unsettled.discard(ticket)
            self._settled.set()
            try:
                fate = self._custody.settle(ticket, outcome.acked, outcome.failed, outcome.rejected)
            except Exception:
                self._log_fault()
                continue
            self._acknowledger.acknowledge(ticket, fate.acknowledge)
            self._acknowledger.release(ticket, fate.release)

    async def aclose(self) -> None:
        """Begin to give back what is held. That goes on while Airflow closes its other streams, and after."""
        self._acknowledger.close()
        farewell = asyncio.create_task(self._farewell(), name=f"workflow-farewell[{self.stream.inbox}]")
        _farewells.add(farewell)
        farewell.add_done_callback(_farewells.discard)
        # A task that is cancelled before it has begun never begins.
        await asyncio.sleep(0)

    async def _let_watchers_choose(self, ticket: Ticket) -> None:
        """
        Find out what each watcher wants of a batch before it is offered: then nothing may be awaited.

        In a thread, as expressions over large payloads take long. Watchers that begin meanwhile choose as
        well, so that whoever the batch is offered to next has chosen.
        """
        while waiting := [w for w in streams.watchers(self.stream) if w.watcher not in ticket.choices]:
            found = await asyncio.to_thread(_choices, waiting, ticket)
            ticket.choices.update(found)

    def _take(self, leased: Leased) -> Iterator[Ticket | None]:
        try:
            yield from self._custody.take(leased)
        except Exception:
            self._log_fault()

    def _log_fault(self) -> None:
        log.exception("Inbox %s: messages are left to their lease by a fault", self.stream.inbox)

    async def _until_there_is_room(self) -> None:
        while len(self._unsettled) + self._acknowledger.backlog >= MOST_UNSETTLED:
            self._settled.clear()
            await self._settled.wait()

    async def _farewell(self) -> None:
        try:
            await self._give_back()
        except asyncio.CancelledError:
            # The event loop ends, and cancels all of its tasks. It does so once, and waits for them.
            await self._give_back()
        finally:
            await self._poller.close()

    async def _give_back(self) -> None:
        """Acknowledge and release what is left, all at once, for the last time."""
        work = [self._acknowledger.finish(), self._give_back_what_is_asked_for()]
        work += [
            self._release(leased.inbox_id, leased.lease.lease_id, ids) for leased, ids in self._custody.rest()
        ]
        tasks = {asyncio.ensure_future(each) for each in work}
        for task in tasks:
            task.add_done_callback(self._log_failure)
        try:
            await clock.wait(tasks, FAREWELL_SECONDS)
        finally:
            for task in tasks:
                task.cancel()

    def _log_failure(self, task: asyncio.Future[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            text = "Inbox %s: some messages are redelivered only when their lease ends: %s"
            log.info(text, self.stream.inbox, plain(str(error)))

    async def _give_back_what_is_asked_for(self) -> None:
        """Release what a lease that is under way brings."""
        asking = self._poller.asking
        if asking is not None:
            await asyncio.wait({asking})
            if lease_id := asking.result().get("lease_id"):
                await self._release(self._poller.inbox_id, lease_id, None)

    async def _release(self, inbox_id: str, lease_id: str, ids: list[str] | None) -> None:
        client = self._poller.client
        for some in [None] if ids is None else slices(ids):
            await client.send(api.release_messages(inbox_id, lease_id, some))


def _choices(watchers: list[Sieve], ticket: Ticket) -> dict[Watcher, Choice]:
    pace = Pace()
    return {each.watcher: each.choose(ticket, pace) for each in watchers}
