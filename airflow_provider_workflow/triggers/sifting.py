"""What one watcher takes of the batches that a poller brings, and the events that it makes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from airflow.triggers.base import TriggerEvent
from airflow.triggers.shared_stream import reject_shared_stream_event

from airflow_provider_workflow import metrics
from airflow_provider_workflow.triggers.emitted import Emitted
from airflow_provider_workflow.triggers.event_payload import Carried, event_payload
from airflow_provider_workflow.triggers.tickets import Ticket, Watcher

if TYPE_CHECKING:
    from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger

Sift = Callable[[list[Carried]], tuple[list[Carried], dict[str, str]]]


class Sieve:
    """
    :param asked: the watcher's trigger.
    :param sift: of messages, those that the watcher wants, and the ids of those that it refuses, each with
        the cause.
    """

    def __init__(self, asked: WorkflowInboxEventTrigger, sift: Sift) -> None:
        self._conn_id = asked.workflow_conn_id
        self._sift = sift
        self._emitted = Emitted(asked.asset_state_store, f"{asked.workflow_conn_id}/{asked.inbox}")
        self._watcher = Watcher()

    async def events(self, batches: AsyncIterator[Ticket]) -> AsyncIterator[TriggerEvent]:
        """
        Make an event of what this watcher wants of each batch.

        Nothing is awaited between taking a batch and yielding its event, nothing is raised, and the batch
        is marked only after the yield has returned: whatever ends it before leaves the messages leased.
        """
        await self._emitted.recall()
        try:
            async for ticket in batches:
                wanted, refused = self._sift(ticket.messages)
                ids = [each.id for each in wanted]
                ticket.judge(self._watcher, ids, refused)
                if wanted:
                    yield TriggerEvent(event_payload(ticket.inbox_id, wanted, self._emitted.among(ids)))
                    metrics.count(metrics.EMITTED, len(ids), inbox=ticket.inbox_id, conn_id=self._conn_id)
                    ticket.mark(self._watcher, proven=await self._emitted.remember(ids))
                elif refused:
                    reject_shared_stream_event()
        finally:
            self.leave()

    def leave(self) -> None:
        """Airflow has ended the watcher."""
        self._watcher.gone = True
