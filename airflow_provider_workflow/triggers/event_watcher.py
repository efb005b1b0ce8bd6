"""The asset watchers of an inbox: each selects messages from leased batches, and makes events of them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import TriggerEvent

from airflow_provider_workflow import observers
from airflow_provider_workflow.airflow_internals import state_stores
from airflow_provider_workflow.client.json_steps import Pace
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.triggers.event_batch import Batch, Carried, Choice, Watcher, event_payload
from airflow_provider_workflow.triggers.event_poller import Stream

log = logging.getLogger(__name__)

MOST_REMEMBERED = 2000
"""Maximum number of messages. At 16 bytes each, they fit the 64 KB that Airflow stores without a warning."""

_remembered: dict[tuple[str, str], dict[str, None]] = {}


Sift = Callable[[list[Carried], Pace], tuple[list[Carried], dict[str, str]]]


class EventWatcher(Watcher):
    """
    A running trigger: it selects messages from each batch, and makes an event of them.

    :param stream: the stream whose batches it receives.
    :param store: Airflow's state store of the asset, or None.
    :param sift: returns the selected messages, and the causes of rejected ones by id; pauses in between.
    :param per_message: whether each message gets an event of its own.
    """

    def __init__(self, stream: Stream, store: Any, sift: Sift, *, per_message: bool = False) -> None:
        super().__init__()
        self._per_message = per_message
        self._stream = stream
        self._sift = sift
        self._emitted = Emitted(store, f"{stream.workflow_conn_id}/{stream.inbox}")
        join(stream, self)

    def choose(self, batch: Batch, pace: Pace) -> Choice:
        """
        Select messages from a batch, and make the events. It may take long: call it in a thread.

        It does not raise: if it fails, the messages are rejected.

        :param pace: limits how long the thread runs without a pause.
        """
        try:
            wanted, rejected = self._sift(batch.messages, pace)
            pace()
            again = self._emitted.among([each.id for each in wanted])
            return Choice(wanted, rejected, again, self._payloads(batch, wanted, again))
        except Exception as error:
            log.exception("Inbox %s: a watcher failed; the messages are rejected", self._stream.inbox)
            cause = f"its watcher failed: {type(error).__name__}"
            return Choice([], {each.id: cause for each in batch.messages})

    async def events(self, batches: AsyncIterator[Batch]) -> AsyncIterator[TriggerEvent]:
        """
        Make an event of the messages that this watcher selected from each batch, or one of each message.

        Nothing is raised, and the batch is recorded as emitted only after each yield has returned: if it ends
        before, its messages stay leased. Of several events Airflow may store the first while the others are
        made, so they are remembered before. Batches without a choice (:meth:`choose`) are skipped; their
        messages are redelivered.
        """
        await self._emitted.load()
        try:
            async for batch in batches:
                choice = batch.choices.pop(self, None)
                if choice is None:
                    continue
                ids = choice.ids
                batch.record_choice(self, ids, choice.rejected)
                if ids:
                    payloads = self._payloads_now(batch, choice)
                    if len(payloads) > 1:
                        await self._emitted.remember(ids)
                    for payload in payloads:
                        yield TriggerEvent(dict(payload))
                    where = {"inbox": batch.inbox_id, "conn_id": self._stream.workflow_conn_id}
                    observers.tell("emitted", **where, count=len(ids))
                    batch.record_event(self, proven=await self._emitted.remember(ids))
                elif choice.rejected:
                    from airflow.triggers.shared_stream import reject_shared_stream_event  # Airflow 3.3

                    reject_shared_stream_event()
        finally:
            self.leave()

    def _payloads_now(self, batch: Batch, choice: Choice) -> Sequence[Mapping[str, Any]]:
        again = self._emitted.among(choice.ids)
        if again == choice.again:
            return choice.payloads
        # Some of them became part of another event after the choice.
        return self._payloads(batch, choice.wanted, again)

    def _payloads(
        self, batch: Batch, wanted: list[Carried], again: frozenset[str]
    ) -> Sequence[Mapping[str, Any]]:
        parts = [[each] for each in wanted] if self._per_message else [wanted]
        return [event_payload(batch.inbox_id, part, again) for part in parts]

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


class Emitted:
    """
    The latest messages of an inbox that were part of events of an asset.

    They are kept in the memory of this process and, from Airflow 3.3.2 on, in the asset's state store, from
    which a new triggerer reads them; of a trigger of several assets, in the store of each.

    :param store: Airflow's state store of the asset, or None.
    :param stream: identifies the inbox.
    """

    def __init__(self, store: Any, stream: str) -> None:
        self._stores: list[Any] = state_stores(store) if hasattr(store, "aset") else []
        self._key = f"workflow_emitted_{_mark(stream)}"
        # Shared by the triggers of an asset: an event of any of them counts.
        self._marks = _remembered.setdefault((repr(store), stream), {})
        self._warned = False

    async def load(self) -> None:
        """Read what an earlier process stored; on an error log a WARNING and continue."""
        for store in self._stores:
            try:
                stored = await store.aget(self._key)
            except Exception as error:
                self._warn_once(error)
                continue
            if isinstance(stored, list):
                newer = dict(self._marks)
                self._marks.clear()
                self._add([*map(str, stored), *newer])

    def among(self, ids: Collection[str]) -> frozenset[str]:
        """Those of the ids that were part of an earlier event."""
        return frozenset(each for each in ids if _mark(each) in self._marks)

    async def remember(self, ids: Collection[str]) -> bool:
        """
        Record that messages were emitted.

        :return: whether Airflow answered. It does not once it has begun to stop its triggers, and then the
            event may never be stored.
        """
        self._add([_mark(each) for each in ids])
        answers = [await self._stored_in(store) for store in self._stores]
        return bool(answers) and all(answers)

    async def _stored_in(self, store: Any) -> bool:
        """Write into the store of an asset; return whether Airflow answered."""
        try:
            await store.aset(self._key, list(self._marks))
        except AirflowRuntimeError as error:
            self._warn_once(error)
        except Exception as error:
            self._warn_once(error)
            return False
        return True

    def _add(self, marks: list[str]) -> None:
        for mark in marks:
            self._marks.pop(mark, None)
            self._marks[mark] = None
        while len(self._marks) > MOST_REMEMBERED:
            del self._marks[next(iter(self._marks))]

    def _warn_once(self, error: Exception) -> None:
        if not self._warned:
            log.warning(
                "The asset's state store cannot be used (%s: %s); messages that are redelivered after a"
                " restart of the triggerer are not marked",
                type(error).__name__,
                plain(str(error)),
            )
        self._warned = True


def _mark(text: str) -> str:
    """A hash of 12 hexadecimal digits, of a message id or an inbox."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=6).hexdigest()
