"""What one watcher takes of the batches that a poller brings, and the events that it makes of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import TriggerEvent
from airflow.triggers.shared_stream import reject_shared_stream_event

from airflow_provider_workflow import metrics
from airflow_provider_workflow.client.json_steps import Pace
from airflow_provider_workflow.triggers import stream as streams
from airflow_provider_workflow.triggers.emitted import Emitted
from airflow_provider_workflow.triggers.event_payload import Carried, event_payload
from airflow_provider_workflow.triggers.stream import Stream
from airflow_provider_workflow.triggers.tickets import Choice, Ticket, Watcher

if TYPE_CHECKING:
    from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger

log = logging.getLogger(__name__)

Sift = Callable[[list[Carried], Pace], tuple[list[Carried], dict[str, str]]]


class Sieve:
    """
    :param asked: the watcher's trigger.
    :param sift: of messages, those that the watcher wants, and the ids of those that it refuses, each with
        the cause; in steps.
    """

    def __init__(self, asked: WorkflowInboxEventTrigger, sift: Sift) -> None:
        self._conn_id = asked.workflow_conn_id
        self._sift = sift
        self._emitted = Emitted(asked.asset_state_store, f"{asked.workflow_conn_id}/{asked.inbox}")
        self._inbox = asked.inbox
        self._stream = Stream.of(vars(asked))
        self.watcher = Watcher()
        streams.join(self._stream, self)

    def choose(self, ticket: Ticket, pace: Pace) -> Choice:
        """
        Find out what this watcher wants of a batch, and make its event. Takes long; to be called in a thread.

        Nothing is raised: where this fails the messages are refused.

        :param pace: of that thread.
        """
        try:
            wanted, refused = self._sift(ticket.messages, pace)
            pace()
            again = self._emitted.among([each.id for each in wanted])
            return Choice(wanted, refused, again, event_payload(ticket.inbox_id, wanted, again))
        except Exception as error:
            log.exception("Inbox %s: a watcher fails to choose among messages", self._inbox)
            cause = f"its watcher failed: {type(error).__name__}"
            return Choice([], {each.id: cause for each in ticket.messages})

    async def events(self, batches: AsyncIterator[Ticket]) -> AsyncIterator[TriggerEvent]:
        """
        Make an event of what this watcher wants of each batch.

        Nothing is awaited between taking a batch and yielding its event, nothing is raised, and the batch
        is marked only after the yield has returned: whatever ends it before leaves the messages leased. What
        it wants is known by then (:meth:`choose`); a batch of which it is not is left for another lease.
        """
        await self._emitted.recall()
        try:
            async for ticket in batches:
                choice = ticket.choices.pop(self.watcher, None)
                if choice is None:
                    continue
                ids = choice.ids
                ticket.judge(self.watcher, ids, choice.refused)
                if ids:
                    yield TriggerEvent(self._payload(ticket, choice))
                    metrics.count(metrics.EMITTED, len(ids), inbox=ticket.inbox_id, conn_id=self._conn_id)
                    ticket.mark(self.watcher, proven=await self._emitted.remember(ids))
                elif choice.refused:
                    reject_shared_stream_event()
        finally:
            self.leave()

    def _payload(self, ticket: Ticket, choice: Choice) -> dict[str, Any]:
        again = self._emitted.among(choice.ids)
        if again == choice.again:
            return dict(choice.payload)
        # An event was made of some of them since it was chosen.
        return event_payload(ticket.inbox_id, choice.wanted, again)

    def leave(self) -> None:
        """Airflow has ended the watcher."""
        self.watcher.gone = True
        streams.leave(self._stream, self)
