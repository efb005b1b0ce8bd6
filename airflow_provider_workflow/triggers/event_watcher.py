"""The asset watchers of an inbox: each selects messages from leased batches, and makes events of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from weakref import WeakKeyDictionary

from airflow.triggers.base import TriggerEvent

from airflow_provider_workflow import observers
from airflow_provider_workflow.triggers.event_batch import Batch, Carried, Choice, Watcher, event_payload
from airflow_provider_workflow.triggers.event_poller import Stream

log = logging.getLogger(__name__)

Sift = Callable[[list[Carried]], tuple[list[Carried], dict[str, str]]]


class EventWatcher(Watcher):
    """
    A running trigger: it selects messages from each batch, and makes an event of them.

    :param stream: the stream whose batches it receives.
    :param sift: returns the selected messages, and the causes of rejected ones by id.
    :param per_message: whether each message gets an event of its own.
    """

    def __init__(self, stream: Stream, sift: Sift, *, per_message: bool = False) -> None:
        super().__init__()
        self._per_message = per_message
        self._stream = stream
        self._sift = sift
        join(stream, self)

    def choose(self, batch: Batch) -> Choice:
        """
        Select messages from a batch, and make the events. It may take long: call it in a thread.

        It does not raise: if it fails, the messages are rejected.
        """
        try:
            wanted, rejected = self._sift(batch.messages)
            parts = [[each] for each in wanted] if self._per_message else [wanted]
            return Choice(wanted, rejected, [event_payload(batch.inbox_id, part) for part in parts])
        except Exception as error:
            log.exception("Inbox %s: a watcher failed; the messages are rejected", self._stream.inbox)
            cause = f"its watcher failed: {type(error).__name__}"
            return Choice([], {each.id: cause for each in batch.messages})

    async def events(self, batches: AsyncIterator[Batch]) -> AsyncIterator[TriggerEvent]:
        """
        Make an event of the messages that this watcher selected from each batch, or one of each message.

        Nothing is raised, and the batch is recorded as emitted only after each yield has returned: if it ends
        before, its messages stay leased. Batches without a choice (:meth:`choose`) are skipped; their
        messages are redelivered.
        """
        try:
            async for batch in batches:
                choice = batch.choices.pop(self, None)
                if choice is None:
                    continue
                ids = choice.ids
                batch.record_choice(self, ids, choice.rejected)
                if ids:
                    for payload in choice.payloads:
                        yield TriggerEvent(dict(payload))
                    where = {"inbox": batch.inbox_id, "conn_id": self._stream.workflow_conn_id}
                    observers.tell("emitted", **where, count=len(ids))
                    batch.record_event(self)
                elif choice.rejected:
                    from airflow.triggers.shared_stream import reject_shared_stream_event  # Airflow 3.3

                    reject_shared_stream_event()
        finally:
            self.leave()

    def leave(self) -> None:
        """Mark the watcher as ended by Airflow."""
        self.has_ended = True
        leave(self._stream, self)


_watched: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Stream, list[EventWatcher]]] = WeakKeyDictionary()


def watchers_of(stream: Stream) -> list[EventWatcher]:
    """The running watchers of a stream in this event loop."""
    return list(_watched.get(asyncio.get_running_loop(), {}).get(stream, ()))


def join(stream: Stream, watcher: EventWatcher) -> None:
    """Register a watcher: it receives all batches from now on."""
    _watched.setdefault(asyncio.get_running_loop(), {}).setdefault(stream, []).append(watcher)


def leave(stream: Stream, watcher: EventWatcher) -> None:
    """Unregister a watcher; idempotent."""
    here = _watched.get(asyncio.get_running_loop(), {})
    rest = [each for each in here.get(stream, ()) if each is not watcher]
    if rest:
        here[stream] = rest
    else:
        here.pop(stream, None)
