"""The asset watchers of an inbox: what each wants of the leased batches, and the events that it makes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any
from weakref import WeakKeyDictionary

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import TriggerEvent

from airflow_provider_workflow import metrics
from airflow_provider_workflow.client.json_steps import Pace
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.triggers.event_batch import Batch, Carried, Choice, Watcher, event_payload
from airflow_provider_workflow.triggers.event_poller import Stream

log = logging.getLogger(__name__)

MOST_REMEMBERED = 2000
"""Messages. At 16 bytes for each they stay within the 64 KB that Airflow stores without a warning."""

_remembered: dict[tuple[str, str], dict[str, None]] = {}


Sift = Callable[[list[Carried], Pace], tuple[list[Carried], dict[str, str]]]


class EventWatcher(Watcher):
    """
    One trigger that Airflow runs: it chooses from each batch, and makes an event of what it wants.

    :param stream: whose batches it is given.
    :param store: Airflow's own for the state of the asset; None where it gives none.
    :param sift: of messages, those that the watcher wants, and the ids of those that it rejects, each with
        the cause; in steps.
    """

    def __init__(self, stream: Stream, store: Any, sift: Sift) -> None:
        super().__init__()
        self._stream = stream
        self._sift = sift
        self._emitted = Emitted(store, f"{stream.workflow_conn_id}/{stream.inbox}")
        join(stream, self)

    def choose(self, batch: Batch, pace: Pace) -> Choice:
        """
        Find out what this watcher wants of a batch, and make its event. Takes long; to be called in a thread.

        Nothing is raised: where this fails the messages are rejected.

        :param pace: of that thread.
        """
        try:
            wanted, rejected = self._sift(batch.messages, pace)
            pace()
            again = self._emitted.among([each.id for each in wanted])
            return Choice(wanted, rejected, again, event_payload(batch.inbox_id, wanted, again))
        except Exception as error:
            log.exception("Inbox %s: a watcher fails to choose among messages", self._stream.inbox)
            cause = f"its watcher failed: {type(error).__name__}"
            return Choice([], {each.id: cause for each in batch.messages})

    async def events(self, batches: AsyncIterator[Batch]) -> AsyncIterator[TriggerEvent]:
        """
        Make an event of what this watcher wants of each batch.

        Nothing is awaited between taking a batch and yielding its event, nothing is raised, and the batch
        is marked only after the yield has returned: whatever ends it before leaves the messages leased. What
        it wants is known by then (:meth:`choose`); a batch of which it is not is left for another lease.
        """
        await self._emitted.recall()
        try:
            async for batch in batches:
                choice = batch.choices.pop(self, None)
                if choice is None:
                    continue
                ids = choice.ids
                batch.record_choice(self, ids, choice.rejected)
                if ids:
                    yield TriggerEvent(self._payload(batch, choice))
                    metrics.count(
                        metrics.EMITTED, len(ids), inbox=batch.inbox_id, conn_id=self._stream.workflow_conn_id
                    )
                    batch.record_event(self, proven=await self._emitted.remember(ids))
                elif choice.rejected:
                    from airflow.triggers.shared_stream import reject_shared_stream_event  # Airflow 3.3

                    reject_shared_stream_event()
        finally:
            self.leave()

    def _payload(self, batch: Batch, choice: Choice) -> dict[str, Any]:
        again = self._emitted.among(choice.ids)
        if again == choice.again:
            return dict(choice.payload)
        # An event was made of some of them since it was chosen.
        return event_payload(batch.inbox_id, choice.wanted, again)

    def leave(self) -> None:
        """Airflow has ended the watcher."""
        self.gone = True
        leave(self._stream, self)


_watched: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Stream, list[EventWatcher]]] = WeakKeyDictionary()


def watchers_of(stream: Stream) -> list[EventWatcher]:
    """The watchers of a stream in this event loop."""
    return list(_watched.get(asyncio.get_running_loop(), {}).get(stream, ()))


def join(stream: Stream, watcher: EventWatcher) -> None:
    """A watcher begins: it is given all batches from now on."""
    _watched.setdefault(asyncio.get_running_loop(), {}).setdefault(stream, []).append(watcher)


def leave(stream: Stream, watcher: EventWatcher) -> None:
    """A watcher has ended; it may be said more than once."""
    here = _watched.get(asyncio.get_running_loop(), {})
    rest = [each for each in here.get(stream, ()) if each is not watcher]
    if rest:
        here[stream] = rest
    else:
        here.pop(stream, None)


class Emitted:
    """
    The messages of an inbox that went into events of an asset, as far as they are remembered.

    They are kept in the memory of this process and, from Airflow 3.3.2 on, in the asset's state store:
    what a triggerer emitted before it was killed is known to the next one.

    :param store: Airflow's own, which it gives to the trigger of an asset; None where it gives none.
    :param stream: tells inboxes apart.
    """

    def __init__(self, store: Any, stream: str) -> None:
        self._store: Any = store if hasattr(store, "aset") else None
        self._key = f"workflow_emitted_{_mark(stream)}"
        # Triggers of one asset share it: whoever the event came from, the asset has seen the message.
        self._marks = _remembered.setdefault((repr(store), stream), {})
        self._complained = False

    async def recall(self) -> None:
        """Read what a process before this one stored; where that cannot be read, go on without."""
        if self._store is None:
            return
        try:
            stored = await self._store.aget(self._key)
        except Exception as error:
            self._complain(error)
            return
        if isinstance(stored, list):
            newer = dict(self._marks)
            self._marks.clear()
            self._add([*map(str, stored), *newer])

    def among(self, ids: Collection[str]) -> frozenset[str]:
        """Those of these messages that were emitted before."""
        return frozenset(each for each in ids if _mark(each) in self._marks)

    async def remember(self, ids: Collection[str]) -> bool:
        """
        Remember that these were just emitted.

        :return: whether Airflow answered. It answers nothing any more once it has begun to stop its
            triggers, and an event that was made then may never be stored.
        """
        self._add([_mark(each) for each in ids])
        if self._store is None:
            return False
        try:
            await self._store.aset(self._key, list(self._marks))
        except AirflowRuntimeError as error:
            self._complain(error)
        except Exception as error:
            self._complain(error)
            return False
        return True

    def _add(self, marks: list[str]) -> None:
        for mark in marks:
            self._marks.pop(mark, None)
            self._marks[mark] = None
        while len(self._marks) > MOST_REMEMBERED:
            del self._marks[next(iter(self._marks))]

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            log.warning(
                "The asset's state store cannot be used (%s: %s); messages that are redelivered after a"
                " restart of the triggerer are not marked",
                type(error).__name__,
                plain(str(error)),
            )
        self._complained = True


def _mark(text: str) -> str:
    """12 hexadecimal digits for a message or an inbox."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=6).hexdigest()
