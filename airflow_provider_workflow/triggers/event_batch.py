"""
A batch of leased messages for asset events: the encoded messages, the choices of the watchers, the outcome.

A raw payload in an event can end the triggerer (a NUL, a lone surrogate, an integer over 64 bits), and a
database reorders its keys. Messages are therefore encoded as one ASCII string, which ``assets.messages_of``
decodes.

Airflow reports a batch as stored even for a watcher without an event: if its filter raised, or was cancelled
before its ``yield``, or between the ``yield`` and the moment when Airflow took the event. So watchers record
on the batch what they select, what they reject, and that Airflow took their event. A message is acknowledged
only if the report and these records agree.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from airflow_provider_workflow import observers, types
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import HeldLease, encoded, without_lease
from airflow_provider_workflow.triggers.event_poller import Leased, Stream

log = logging.getLogger(__name__)

T = TypeVar("T")

LARGEST_EVENT = 1_000_000
"""Maximum characters of the messages in one event; longer batches are split."""
MOST_REMEMBERED = 10_000


class Carried(NamedTuple):
    """
    A leased message, encoded for events.

    :param message: ``id``, ``created_at``, ``payload``, ``message_attributes``.
    :param text: the same as ASCII JSON.
    """

    id: str
    message: dict[str, Any]
    text: str


def carried(messages: Iterable[types.LeasedMessage]) -> tuple[list[Carried], dict[str, str]]:
    """The messages, encoded, and the causes of those that cannot be encoded, by id; for a thread."""
    texts: list[Carried] = []
    causes: dict[str, str] = {}
    for message in messages:
        shown = without_lease(message)
        try:
            texts.append(Carried(message["id"], shown, encoded(shown)))
        except ValueError as problem:
            causes[message["id"]] = str(problem)
    return texts, causes


def event_payload(inbox_id: str, messages: Sequence[Carried]) -> dict[str, Any]:
    """The payload of an event; ``messages_of`` decodes it."""
    text = ", ".join(message.text for message in messages)
    return {"inbox_id": plain(inbox_id), "count": len(messages), "messages": f"[{text}]"}


def _parts(messages: Iterable[Carried]) -> Iterator[list[Carried]]:
    """Split messages into lists that fit an event; a longer message gets an event of its own."""
    part: list[Carried] = []
    size = 0
    for message in messages:
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
    A running trigger, as seen by batches.

    :param has_ended: whether Airflow has ended it.
    """

    has_ended: bool = False


class Rejection(NamedTuple):
    """Why a message cannot be put into an event; ``watcher`` is None if that holds for all watchers."""

    cause: str
    watcher: Watcher | None = None

    @property
    def lasts(self) -> bool:
        """Whether the rejection still holds: the watcher that made it is still running."""
        return self.watcher is None or not self.watcher.has_ended


class Choice(NamedTuple):
    """
    The choice of a watcher from a batch.

    :param wanted: the messages that it selects.
    :param rejected: causes of rejected messages, by id.
    :param payloads: payloads of its events.
    """

    wanted: list[Carried]
    rejected: dict[str, str]
    payloads: Sequence[Mapping[str, Any]] = ()

    @property
    def ids(self) -> list[str]:
        """Ids of the selected messages."""
        return [each.id for each in self.wanted]


class Report(NamedTuple):
    """
    The messages of a batch by their outcome.

    :param stored: in a stored event of each watcher that selects them.
    :param unmatched: selected by no watcher.
    :param rejected: rejected by a watcher, even if others select them.
    :param undelivered: possibly in no event, so they must be redelivered.
    """

    stored: list[str]
    unmatched: list[str]
    rejected: dict[str, Rejection]
    undelivered: list[str]


@dataclass(eq=False)
class Batch:
    """
    The messages of a lease, or a part of them.

    :param messages: offered to the watchers.
    :param choices: choices of the watchers, made before Airflow gets the batch.
    """

    inbox_id: str
    lease: HeldLease
    messages: list[Carried]
    rejected: dict[str, Rejection] = field(default_factory=dict)
    choices: dict[Watcher, Choice] = field(default_factory=dict)
    _wanted: dict[Watcher, frozenset[str]] = field(default_factory=dict)
    _emitted: set[Watcher] = field(default_factory=set)

    def record_choice(self, watcher: Watcher, wanted: Collection[str], rejected: Mapping[str, str]) -> None:
        """
        Record the choice of a watcher.

        :param wanted: ids of the messages in its event.
        :param rejected: causes of rejected messages, by id.
        """
        self._wanted[watcher] = frozenset(wanted)
        for message_id, cause in rejected.items():
            self.rejected.setdefault(message_id, Rejection(cause, watcher))

    def record_event(self, watcher: Watcher) -> None:
        """Record that Airflow took the event of a watcher: its ``yield`` returned."""
        self._emitted.add(watcher)

    def report(self, acked: int, failed: int, rejected: int) -> Report:
        """
        Sort the messages by their outcome, after Airflow's report.

        :param acked: number of watchers whose events Airflow reports as stored.
        :param failed: number of watchers that Airflow reports as failed.
        :param rejected: number of watchers that select no message and reject some.
        """
        ids = [each.id for each in self.messages]
        rest = [each for each in ids if each not in self.rejected]
        if failed or not acked + rejected or len(self._wanted) < acked + rejected:
            return Report([], [], self.rejected, rest)
        wanting = {each: [w for w, wanted in self._wanted.items() if each in wanted] for each in rest}
        stored = [each for each in rest if wanting[each] and self._emitted.issuperset(wanting[each])]
        unmatched = [each for each in rest if not wanting[each]]
        undelivered = [each for each in rest if each not in stored and each not in unmatched]
        return Report(stored, unmatched, self.rejected, undelivered)

    def watchers_remain(self) -> bool:
        """
        Whether all watchers that selected messages are still running.

        If a DAG was paused just before, Airflow ends its watcher, and may have dropped the event although it
        reported it as stored.
        """
        return not any(watcher.has_ended for watcher, wanted in self._wanted.items() if wanted)


class Outcome(NamedTuple):
    """
    What to do with the messages of a batch; others stay leased until their lease expires.
    """

    acknowledge: list[str]
    release: list[str]


class HeldLeases:
    """
    The leases that a producer holds, and the outcome of their batches.

    It remembers rejected and unmatched messages, for when they are redelivered.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._held: dict[str, tuple[Leased, set[str]]] = {}
        self._unmatched: dict[str, None] = {}
        self._rejected: dict[str, Rejection] = {}

    def batches(self, leased: Leased, messages: list[Carried], causes: Mapping[str, str]) -> list[Batch]:
        """
        Hold a lease, and split it into batches, one for each event; rejected messages are left out.

        :param messages: of the lease, encoded.
        :param causes: why others could not be encoded, by id.
        """
        inbox_id, lease = leased
        self._held = {each: held for each, held in self._held.items() if lasts(held[0].lease)}
        self._held[lease.lease_id] = leased, {each["id"] for each in lease.messages}
        for message_id, cause in causes.items():
            self.reject(inbox_id, lease, message_id, Rejection(cause))
        rejected = [each.id for each in messages if self._is_rejected(each.id)]
        self._drop(lease, *rejected)
        offered = [each for each in messages if each.id not in rejected]
        return [Batch(inbox_id, lease, part) for part in _parts(offered)]

    def _is_rejected(self, message_id: str) -> bool:
        rejection = self._rejected.get(message_id)
        return rejection is not None and rejection.lasts

    def outcome(self, batch: Batch, acked: int, failed: int, rejected: int) -> Outcome:
        """
        Decide on the messages of a batch, and stop holding them.

        The numbers are those of :meth:`Batch.report`.
        """
        if not acked + failed + rejected:
            # There was no watcher: the messages stay held, and are released when the producer closes.
            return Outcome([], [])
        found = batch.report(acked, failed, rejected)
        for message_id, rejection in found.rejected.items():
            self.reject(batch.inbox_id, batch.lease, message_id, rejection)
        self._drop(batch.lease, *found.stored, *found.unmatched, *found.undelivered)
        first = [each for each in found.unmatched if self.is_unmatched_for_the_first_time(each)]
        return Outcome(found.stored, found.undelivered + first)

    def rest(self) -> list[tuple[Leased, list[str]]]:
        """The ids that are still held, by lease."""
        return [(leased, sorted(ids)) for leased, ids in self._held.values()]

    def is_unmatched_for_the_first_time(self, message_id: str) -> bool:
        """Record that no watcher selects a message; return whether it is the first time."""
        first = message_id not in self._unmatched
        if first and not self._unmatched:
            log.warning(
                "Inbox %s: no watcher in this triggerer selects message %s. Such messages are released once;"
                " later their lease expires, until the service quarantines them",
                self._stream.inbox,
                plain(message_id),
            )
        _remember(self._unmatched, message_id, None)
        return first

    def reject(self, inbox_id: str, lease: HeldLease, message_id: str, rejection: Rejection) -> None:
        """Reject a message: it stays leased until its lease expires, and is quarantined in the end."""
        if message_id not in self._rejected:
            observers.tell("rejected", inbox=inbox_id, conn_id=self._stream.workflow_conn_id)
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
            # To free its payloads, which may be large.
            del self._held[lease.lease_id]


def lasts(lease: HeldLease) -> bool:
    """Whether a lease has not expired."""
    return lease.seconds_left() > 0


def _remember(ids: dict[str, T], message_id: str, value: T) -> None:
    """Add an id, and keep the latest ``MOST_REMEMBERED``."""
    ids.pop(message_id, None)
    ids[message_id] = value
    if len(ids) > MOST_REMEMBERED:
        del ids[next(iter(ids))]
