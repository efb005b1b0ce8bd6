"""
A leased batch on its way into asset events: its messages as text, what each watcher wants, and its outcome.

A payload that is put into an event as it is can end the whole triggerer (a NUL, a lone surrogate, an
integer over 64 bits), and a database reorders its keys. A text crosses with any of these in it, as the
service sent it; ``assets.messages_of`` opens it.

Airflow reports a batch as done also for a watcher whose event it never made: one whose filter raised, or
that was cancelled before it yielded, or between its yield and the moment at which Airflow took the event.
So watchers write their side on the batch: what they want, what they reject, and that Airflow took their
event. A message is acknowledged where both sides agree.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from airflow_provider_workflow import clock, metrics
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.json_steps import in_slices
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import SLICE, HeldLease, for_people
from airflow_provider_workflow.triggers.event_poller import Leased, Stream, is_alone

log = logging.getLogger(__name__)

T = TypeVar("T")

ASSEMBLED_SECONDS = 60.0
"""After so long all watchers are taken to have begun, and what none of them wants may be acknowledged."""
LARGEST_EVENT = 1_000_000
"""Characters of the messages in one event; of more than that several events are made."""
MOST_REMEMBERED = 10_000


class Carried(NamedTuple):
    """
    A leased message on its way into events.

    :param message: ``id``, ``created_at``, ``payload``, ``message_attributes``.
    :param text: the same as ASCII JSON.
    """

    id: str
    message: dict[str, Any]
    text: str


def carried(message: types.LeasedMessage) -> Iterator[Carried | None]:
    """
    Write a message: None after each slice of work but the last, so that an event loop may go on; then it.

    :raises ValueError: no text can hold the message.
    """
    shown = for_people(message)
    parts: list[str] = []
    try:
        for part in in_slices(shown):
            if parts:
                yield None
            parts.append(part)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    yield Carried(message["id"], shown, "".join(parts))


def event_payload(inbox_id: str, messages: Iterable[Carried], again: Collection[str]) -> dict[str, Any]:
    """
    The payload of an event; ``messages_of`` opens it.

    :param again: ids of the messages that were in an event before.
    """
    texts = [f'{each.text[:-1]}, "redelivered": {json.dumps(each.id in again)}}}' for each in messages]
    return {"inbox_id": plain(inbox_id), "count": len(texts), "messages": f"[{', '.join(texts)}]"}


def _parts(messages: Iterator[Carried | None]) -> Iterator[list[Carried] | None]:
    """
    Messages in lists that fit an event; one that is too long for that has an event of its own.

    None is passed on, and comes after each ``SLICE`` of small messages as well.
    """
    part: list[Carried] = []
    size = unpaused = 0
    for message in messages:
        if message is None or unpaused >= SLICE:
            yield None
            unpaused = 0
        if message is None:
            continue
        unpaused += len(message.text)
        if part and size + len(message.text) > LARGEST_EVENT:
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message.text)
    if part:
        yield part


@dataclass(eq=False)
class Watcher:
    """
    One trigger that Airflow runs, as batches know it.

    :param gone: whether Airflow has ended it.
    """

    gone: bool = False


class Rejection(NamedTuple):
    """Why a message cannot be put into an event; ``watcher`` is None where no watcher could."""

    cause: str
    watcher: Watcher | None = None

    @property
    def lasts(self) -> bool:
        """Whether the watcher that rejected it is still there to reject it again."""
        return self.watcher is None or not self.watcher.gone


class Choice(NamedTuple):
    """
    What a watcher chooses of a batch.

    :param wanted: the messages that it wants.
    :param rejected: why it rejects others, by their ids.
    :param again: ids of wanted ones that were in an event before.
    :param payload: of the event that it makes of what it wants; empty where it wants nothing.
    """

    wanted: list[Carried]
    rejected: dict[str, str]
    again: frozenset[str] = frozenset()
    payload: Mapping[str, Any] = MappingProxyType({})

    @property
    def ids(self) -> list[str]:
        """Ids of the messages that it wants."""
        return [each.id for each in self.wanted]


class Report(NamedTuple):
    """
    What became of the messages of a batch.

    :param stored: in a stored event of each watcher that wants them.
    :param unmatched: wanted by no watcher.
    :param rejected: rejected by a watcher, whoever else wants them.
    :param undelivered: perhaps in no event; they have to be redelivered.
    """

    stored: list[str]
    unmatched: list[str]
    rejected: dict[str, Rejection]
    undelivered: list[str]


@dataclass(eq=False)
class Batch:
    """
    One leased batch, or a part of one.

    :param inbox_id: where it was leased.
    :param lease: the lease that its messages belong to.
    :param messages: what it is offered to watchers with.
    :param choices: what watchers choose of it, found out before it is offered.
    """

    inbox_id: str
    lease: HeldLease
    messages: list[Carried]
    rejected: dict[str, Rejection] = field(default_factory=dict)
    choices: dict[Watcher, Choice] = field(default_factory=dict)
    _wanted: dict[Watcher, frozenset[str]] = field(default_factory=dict)
    _marked: dict[Watcher, bool] = field(default_factory=dict)

    def record_choice(self, watcher: Watcher, wanted: Collection[str], rejected: Mapping[str, str]) -> None:
        """
        A watcher was offered the batch, and has chosen.

        :param wanted: ids of those that it puts into an event.
        :param rejected: ids of those that it cannot put into one, and why.
        """
        self._wanted[watcher] = frozenset(wanted)
        for message_id, cause in rejected.items():
            self.rejected.setdefault(message_id, Rejection(cause, watcher))

    def record_event(self, watcher: Watcher, proven: bool) -> None:
        """
        Airflow took the event of a watcher: its ``yield`` returned.

        :param proven: whether Airflow was seen to be at work after that.
        """
        self._marked[watcher] = proven

    def report(self, acked: int, failed: int, rejected: int) -> Report:
        """
        What became of the messages, once Airflow has reported.

        :param acked: watchers all of whose events are stored, as far as Airflow knows.
        :param failed: watchers that Airflow gave up.
        :param rejected: watchers that want none and reject some.
        """
        ids = [each.id for each in self.messages]
        rest = [each for each in ids if each not in self.rejected]
        if failed or not acked + rejected or len(self._wanted) < acked + rejected:
            return Report([], [], self.rejected, rest)
        wanting = {each: [w for w, wanted in self._wanted.items() if each in wanted] for each in rest}
        stored = [each for each in rest if wanting[each] and all(w in self._marked for w in wanting[each])]
        unmatched = [each for each in rest if not wanting[each]]
        undelivered = [each for each in rest if each not in stored and each not in unmatched]
        return Report(stored, unmatched, self.rejected, undelivered)

    def watchers_remain(self) -> bool:
        """
        Whether all watchers that wanted something are still there.

        One whose DAG was paused a moment ago is not, and then Airflow may have dropped its event and
        called it stored.
        """
        return not any(watcher.gone for watcher, wanted in self._wanted.items() if wanted)

    def is_proven(self) -> bool:
        """Whether Airflow was seen to be at work after it took each event."""
        return all(self._marked.values())


class Outcome(NamedTuple):
    """
    What is to be done with the messages of a batch; those that are not named are left to their lease.
    """

    acknowledge: list[str]
    release: list[str]


class HeldLeases:
    """
    The leases that a producer holds, and the outcome of their batches.

    It remembers which messages were rejected, and which were unmatched, when they are leased again.

    :param stream: whose messages they are.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._began_at = clock.monotonic()
        self._held: dict[str, tuple[Leased, set[str]]] = {}
        self._unmatched: dict[str, None] = {}
        self._rejected: dict[str, Rejection] = {}

    def batches(self, leased: Leased) -> Iterator[Batch | None]:
        """
        Hold a lease, and make batches of it.

        Its messages come in as many parts as they need events, without those that are rejected anyway. Each
        part is written when it is asked for, and None comes after each slice of that work: a large lease,
        written at once, would hold up the event loop.
        """
        inbox_id, lease = leased
        self._held = {each: held for each, held in self._held.items() if lasts(held[0].lease)}
        self._held[lease.lease_id] = leased, {each["id"] for each in lease.messages}
        for part in _parts(self._presentable(leased)):
            yield None if part is None else Batch(inbox_id, lease, part)

    def outcome(self, batch: Batch, acked: int, failed: int, rejected: int) -> Outcome:
        """
        Decide on the messages of a batch, which are no longer held.

        The numbers are those of Airflow's report, as :meth:`Batch.report` takes them.
        """
        if not acked + failed + rejected:
            # No watcher was there, and they are still held: to be released when the producer closes.
            return Outcome([], [])
        found = batch.report(acked, failed, rejected)
        for message_id, rejection in found.rejected.items():
            self.reject(batch.inbox_id, batch.lease, message_id, rejection)
        self._drop(batch.lease, *found.stored, *found.unmatched, *found.undelivered)
        if self._acknowledges_unmatched(batch.inbox_id):
            return Outcome(found.stored + found.unmatched, found.undelivered)
        first = [each for each in found.unmatched if self.is_unmatched_for_the_first_time(each)]
        return Outcome(found.stored, found.undelivered + first)

    def rest(self) -> list[tuple[Leased, list[str]]]:
        """What is still held, by lease."""
        return [(leased, sorted(ids)) for leased, ids in self._held.values()]

    def _presentable(self, leased: Leased) -> Iterator[Carried | None]:
        inbox_id, lease = leased
        for message in lease.messages:
            known = self._rejected.get(message["id"])
            if known is not None and known.lasts:
                self._drop(lease, message["id"])
                continue
            try:
                yield from carried(message)
            except ValueError as problem:
                self.reject(inbox_id, lease, message["id"], Rejection(str(problem)))

    def _acknowledges_unmatched(self, inbox_id: str) -> bool:
        assembled = clock.monotonic() >= self._began_at + ASSEMBLED_SECONDS
        return self._stream.unmatched == "acknowledge" and assembled and is_alone(self._stream, inbox_id)

    def is_unmatched_for_the_first_time(self, message_id: str) -> bool:
        """Note that no watcher wants a message: whether it is the first time."""
        first = message_id not in self._unmatched
        if first and not self._unmatched:
            log.warning(
                "Inbox %s: no watcher in this triggerer wants message %s. Such messages are released once,"
                " and then left to their lease until the service quarantines them",
                self._stream.inbox,
                plain(message_id),
            )
        _remember(self._unmatched, message_id, None)
        return first

    def reject(self, inbox_id: str, lease: HeldLease, message_id: str, rejection: Rejection) -> None:
        """Leave a message to its lease, and so in the end to quarantine."""
        if message_id not in self._rejected:
            metrics.count(metrics.REJECTED, 1, inbox=inbox_id, conn_id=self._stream.workflow_conn_id)
            log.error(
                "Inbox %s: message %s is rejected, and left to the service to be quarantined: %s",
                self._stream.inbox,
                plain(message_id),
                plain(rejection.cause),
            )
        _remember(self._rejected, message_id, rejection)
        self._drop(lease, message_id)

    def _drop(self, lease: HeldLease, *message_ids: str) -> None:
        if lease.lease_id not in self._held:
            return
        held = self._held[lease.lease_id][1]
        held.difference_update(message_ids)
        if not held:
            # Its payloads are of no use any more, and may be large.
            del self._held[lease.lease_id]


def lasts(lease: HeldLease) -> bool:
    """Whether the messages of a lease may still be worked on."""
    return lease.seconds_left() > 0


def _remember(ids: dict[str, T], message_id: str, value: T) -> None:
    """Keep the latest ``MOST_REMEMBERED`` of them."""
    ids.pop(message_id, None)
    ids[message_id] = value
    if len(ids) > MOST_REMEMBERED:
        del ids[next(iter(ids))]
