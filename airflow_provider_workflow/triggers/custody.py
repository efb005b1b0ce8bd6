"""The messages that a producer holds leased, and what becomes of each once Airflow has reported."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from airflow_provider_workflow import clock, metrics
from airflow_provider_workflow.dispatch.lease import SLICE, HeldLease
from airflow_provider_workflow.triggers import stream as streams
from airflow_provider_workflow.triggers.event_payload import Carried, carried
from airflow_provider_workflow.triggers.poller import Leased
from airflow_provider_workflow.triggers.stream import Stream
from airflow_provider_workflow.triggers.tickets import Refusal, Ticket
from airflow_provider_workflow.values import plain

log = logging.getLogger(__name__)

T = TypeVar("T")

ASSEMBLED_SECONDS = 60.0
"""After so long all watchers are taken to have begun, and what none of them wants may be acknowledged."""
LARGEST_EVENT = 1_000_000
"""Characters of the messages in one event; of more than that several events are made."""
MOST_REMEMBERED = 10_000


class Fate(NamedTuple):
    """
    What is to be done with the messages of a ticket; those that are not named are left to their lease.
    """

    acknowledge: list[str]
    release: list[str]


class Custody:
    """
    :param stream: whose messages they are.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._began_at = clock.monotonic()
        self._held: dict[str, tuple[Leased, set[str]]] = {}
        self._unwanted: dict[str, None] = {}
        self._refused: dict[str, Refusal] = {}

    def take(self, leased: Leased) -> Iterator[Ticket | None]:
        """
        Take a lease over.

        Its messages come in as many parts as they need events, without those that are refused anyway. Each
        part is written when it is asked for, and None comes after each slice of that work: a large lease,
        written at once, would hold up the event loop.
        """
        inbox_id, lease = leased
        self._held = {each: held for each, held in self._held.items() if lasts(held[0].lease)}
        self._held[lease.lease_id] = leased, {each["id"] for each in lease.messages}
        for part in _parts(self._presentable(leased)):
            yield None if part is None else Ticket(inbox_id, lease, part)

    def settle(self, ticket: Ticket, acked: int, failed: int, rejected: int) -> Fate:
        """
        Decide on the messages of a ticket, which are no longer held.

        The numbers are those of Airflow's report, as :meth:`Ticket.settle` takes them.
        """
        if not acked + failed + rejected:
            # Nobody was there, and they are still held: to be given back when the producer closes.
            return Fate([], [])
        stored, unwanted, refused, again = ticket.settle(acked, failed, rejected)
        for message_id, refusal in refused.items():
            self._refuse(ticket.inbox_id, ticket.lease, message_id, refusal)
        self._let_go(ticket.lease, *stored, *unwanted, *again)
        if self._drops_unwanted(ticket.inbox_id):
            return Fate(stored + unwanted, again)
        return Fate(stored, again + [each for each in unwanted if self._is_unwanted_for_the_first_time(each)])

    def rest(self) -> list[tuple[Leased, list[str]]]:
        """What is still held, by lease."""
        return [(leased, sorted(ids)) for leased, ids in self._held.values()]

    def _presentable(self, leased: Leased) -> Iterator[Carried | None]:
        inbox_id, lease = leased
        for message in lease.messages:
            known = self._refused.get(message["id"])
            if known is not None and known.lasts:
                self._let_go(lease, message["id"])
                continue
            try:
                yield from carried(message)
            except ValueError as problem:
                self._refuse(inbox_id, lease, message["id"], Refusal(str(problem)))

    def _drops_unwanted(self, inbox_id: str) -> bool:
        assembled = clock.monotonic() >= self._began_at + ASSEMBLED_SECONDS
        return (
            self._stream.unmatched == "acknowledge" and assembled and streams.is_alone(self._stream, inbox_id)
        )

    def _is_unwanted_for_the_first_time(self, message_id: str) -> bool:
        first = message_id not in self._unwanted
        if first and not self._unwanted:
            log.warning(
                "Inbox %s: no watcher in this triggerer wants message %s. Such messages are released once,"
                " and then left to their lease until the service quarantines them",
                self._stream.inbox,
                plain(message_id),
            )
        _remember(self._unwanted, message_id, None)
        return first

    def _refuse(self, inbox_id: str, lease: HeldLease, message_id: str, refusal: Refusal) -> None:
        """Leave a message to its lease, and so in the end to quarantine."""
        if message_id not in self._refused:
            metrics.count(metrics.REJECTED, 1, inbox=inbox_id, conn_id=self._stream.workflow_conn_id)
            log.error(
                "Inbox %s: message %s is rejected, and left to the service to be quarantined: %s",
                self._stream.inbox,
                plain(message_id),
                plain(refusal.cause),
            )
        _remember(self._refused, message_id, refusal)
        self._let_go(lease, message_id)

    def _let_go(self, lease: HeldLease, *message_ids: str) -> None:
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


def _remember(ids: dict[str, T], message_id: str, value: T) -> None:
    """Keep the latest ``MOST_REMEMBERED`` of them."""
    ids.pop(message_id, None)
    ids[message_id] = value
    if len(ids) > MOST_REMEMBERED:
        del ids[next(iter(ids))]
