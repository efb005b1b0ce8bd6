"""Puts messages into inboxes, and lists them (docs/service.md 3 and 4)."""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from airflow_provider_workflow.emulator.rules.core import Core, Table, atomic
from airflow_provider_workflow.emulator.rules.errors import invalid_field, invalid_parameter
from airflow_provider_workflow.emulator.rules.inboxes import Inboxes
from airflow_provider_workflow.emulator.rules.records import (
    Inbox,
    Lease,
    Message,
    MessageId,
    id_text,
    is_uuid,
    iso,
    values_of,
)

SETTABLE = {"error_message", "possible_duplicate_data", "lease_count"}
"""Attributes of a message that control calls may set."""

CURSOR_MARK = "++++"
"""Prefix of each cursor: a client without percent-encoding would send four spaces instead."""


class Page(NamedTuple):
    """
    A page of a list.

    :param next: cursor of the next page, or None.
    :param previous: cursor of the previous page, or None.
    """

    results: list[dict[str, Any]]
    next: str | None
    previous: str | None


class MessageQueue:
    """
    The messages and leases of one inbox; neither leasing nor expiry needs a scan.

    ``live`` has the messages that are not acknowledged, by number; ``acked`` the others; ``ids`` the ids of
    all messages as strings. The two heaps may have outdated entries, which are skipped when they are popped.
    """

    def __init__(self) -> None:
        self.live: dict[int, Message] = {}
        self.acked: dict[int, Message] = {}
        self.leases: dict[str, Lease] = {}
        self.ids: set[str] = set()
        self._available: list[int] = []
        self._expiries: list[tuple[float, str]] = []

    def add(self, message: Message) -> None:
        """Add a message, or move it after its status was changed."""
        if (text := id_text(message.id)) is not None:
            self.ids.add(text)
        if message.status == "acked":
            self.live.pop(message.number, None)
            self.acked[message.number] = message
            return
        self.live[message.number] = message
        if message.status == "available":
            heappush(self._available, message.number)

    def dequeue(self, limit: int) -> list[Message]:
        """Remove up to ``limit`` leasable messages, oldest first; they stay ``live``."""
        removed: list[Message] = []
        while self._available and len(removed) < limit:
            message = self.live.get(heappop(self._available))
            if message is not None and message.status == "available":
                removed.append(message)
        return removed

    def add_lease(self, lease: Lease) -> None:
        """Add a lease, or update it after its end was changed."""
        self.leases[lease.id] = lease
        heappush(self._expiries, (lease.leased_until, lease.id))

    def expired_leases(self, now: float) -> list[Lease]:
        """Return each expired lease that still has messages, once."""
        expired: list[Lease] = []
        while self._expiries and self._expiries[0][0] <= now:
            lease = self.leases.get(heappop(self._expiries)[1])
            if lease is not None and lease.numbers and lease.leased_until <= now:
                expired.append(lease)
        return expired

    @property
    def drained(self) -> bool:
        """Whether no message is available or leased; a leased one may become available again (assumed)."""
        return all(message.status == "quarantined" for message in self.live.values())


class Messages:
    """
    Puts messages into the queues of inboxes, as their subscriptions would, and lists them.

    There are no timers: leases expire when a queue is read.
    """

    def __init__(self, core: Core, inboxes: Inboxes) -> None:
        self.core = core
        self.inboxes = inboxes
        self.messages = Table(core, "message", Message)
        self.leases = Table(core, "lease", Lease)
        self.queues: dict[str, MessageQueue] = {}
        for message in self.messages.values():
            self._queue(message.inbox_id).add(message)
        for lease in self.leases.values():
            self._queue(lease.inbox_id).add_lease(lease)
        self._last_number = max((message.number for message in self.messages.values()), default=0)
        inboxes.on_deleted.append(self._delete)

    @atomic
    def put(
        self,
        inbox_id: str,
        payloads: Sequence[Any],
        *,
        ids: Sequence[MessageId] | None = None,
        attributes: dict[str, Any] | None = None,
        announce: bool = True,
    ) -> list[MessageId]:
        """
        Put messages into an inbox. An inbox that is not active drops them (published for a paused inbox,
        assumed for the other states).

        :param payloads: one per message.
        :param ids: one per message; UUIDs by default. Any JSON scalar is accepted, to test clients with ids
            that the service does not make: an integer, a string that is not a UUID, or None for a message
            without an id. An existing id is delivered a second time.
        :param attributes: ``error_message``, ``possible_duplicate_data``, ``lease_count`` of each message.
        :param announce: False notifies no event stream.
        :return: the ids of the messages; empty if they were dropped.
        :raises ServiceError: 404 for an unknown inbox, 400 for invalid arguments.
        """
        inbox, _ = self.current(inbox_id)
        chosen: list[MessageId] = [str(uuid.uuid4()) for _ in payloads] if ids is None else [*ids]
        if len(chosen) != len(payloads):
            raise invalid_field("ids", "must have as many entries as payloads.")
        if not all(item is None or isinstance(item, (str, int, float)) for item in chosen):
            raise invalid_field("ids", "must hold strings, numbers, booleans or null.")
        _check(attributes or {})
        if inbox.status != "active":
            self.inboxes.count(inbox, dropped=len(payloads))
            return []
        for message_id, payload in zip(chosen, payloads, strict=True):
            self._add(inbox.id, message_id, self.core.clock.now(), payload, attributes or {})
        self.inboxes.count(inbox, put=len(chosen))
        if announce and chosen:
            self.core.announce(inbox.id)
        return chosen

    @atomic
    def deliver_again(self, inbox_id: str, lease_id: str) -> int:
        """
        Queue a second delivery of each message of a lease.

        :return: the number of messages.
        """
        inbox, queue = self.current(inbox_id)
        numbers = list(queue.leases[lease_id].numbers)
        for first in [queue.live[number] for number in numbers]:
            attributes = {"lease_count": first.lease_count}
            self._add(inbox.id, first.id, first.created_at, first.payload, attributes)
        return len(numbers)

    @atomic
    def set_attributes(self, inbox_id: str, message_id: MessageId, attributes: dict[str, Any]) -> None:
        """
        Set ``error_message``, ``possible_duplicate_data`` or ``lease_count`` of a message.

        :raises ServiceError: 400 for an unknown message or another attribute.
        """
        queue = self.queue(inbox_id)
        messages = [message for message in queue.live.values() if id_text(message.id) == id_text(message_id)]
        if not messages:
            raise invalid_field("message_id", "no such message.")
        _check(attributes)
        for message in messages:
            for name, value in attributes.items():
                setattr(message, name, value)
            self.messages.save(message.number, message)

    @atomic
    def page(self, inbox_id: str, limit: int, cursor: str | None = None) -> Page:
        """
        List the messages of an inbox that are not acknowledged (assumed), without payloads.

        :param limit: messages per page, 1 or more.
        :param cursor: from an earlier page; None for the first page.
        :raises ServiceError: 404 for an unknown inbox, 400 for an invalid cursor.
        """
        direction, number = _read_cursor(cursor)
        # A cursor names a message, so that one that goes away shifts no page.
        sign = -1 if self.core.settings.list_order == "newest" else 1
        by_key = {sign * message.number: message for message in self.queue(inbox_id).live.values()}
        keys = sorted(by_key)
        if direction == "before":
            chosen = [key for key in keys if key < number][-limit:]
        else:
            chosen = [key for key in keys if cursor is None or key > number][:limit]
        results = [by_key[key].view() for key in chosen]
        following = _cursor("after", chosen[-1]) if chosen and chosen[-1] != keys[-1] else None
        previous = _cursor("before", chosen[0]) if chosen and chosen[0] != keys[0] else None
        return Page(results, following, previous)

    @atomic
    def summary(self, inbox_id: str, *, with_messages: bool = True) -> dict[str, Any]:
        """
        Describe an inbox with all its messages, acknowledged ones included (control).

        :param with_messages: False for only the counts.
        :raises ServiceError: 404 for an unknown inbox.
        """
        inbox, queue = self.current(inbox_id)
        messages = sorted((*queue.live.values(), *queue.acked.values()), key=lambda message: message.number)
        counts = dict.fromkeys(("available", "leased", "acked", "quarantined"), 0)
        for message in messages:
            counts[message.status] += 1
        summary: dict[str, Any] = {"counts": counts, "counters": dict(inbox.counters), "inbox": inbox.view()}
        if not with_messages:
            return summary
        leases = [
            {
                "lease_id": lease.id,
                "leased_until": iso(lease.leased_until),
                "message_ids": [queue.live[number].id for number in lease.numbers],
            }
            for lease in queue.leases.values()
            if lease.numbers
        ]
        shown = [{**values_of(message), "payload": None} for message in messages]
        return {**summary, "messages": shown, "leases": leases}

    def check_ids(self, inbox_id: str, ids: Sequence[Any]) -> None:
        """
        Check the ids that a request names: UUIDs, or known ones that a test chose.

        :raises ServiceError: 400.
        """
        known = self.queue(inbox_id).ids
        for item in ids:
            if not is_uuid(item) and not (isinstance(item, (str, int, float)) and id_text(item) in known):
                raise invalid_field("message_ids", "must hold UUIDs only.")

    def queue(self, inbox_id: str) -> MessageQueue:
        """The messages and leases of an inbox, after expired leases were ended."""
        return self.current(inbox_id)[1]

    @atomic
    def current(self, inbox_id: str) -> tuple[Inbox, MessageQueue]:
        """
        Find an inbox and its queue, and end its expired leases.

        :raises ServiceError: 404 for an unknown or deleted inbox.
        """
        inbox = self.inboxes.get(inbox_id)
        queue = self._queue(inbox.id)
        for lease in queue.expired_leases(self.core.clock.now()):
            returned = [queue.live[number] for number in lease.numbers]
            lease.numbers = []
            self.leases.save(lease.id, lease)
            self.inboxes.count(inbox, expired=len(returned))
            self.requeue(inbox, returned)
        return inbox, queue

    def requeue(self, inbox: Inbox, messages: list[Message]) -> None:
        """Make messages available after a lease without acknowledgement, or quarantine them."""
        for message in messages:
            message.lease_id, message.status = None, "available"
            if message.lease_count >= self.core.settings.quarantine_after:
                message.status = "quarantined"
                self.inboxes.count(inbox, quarantined=1)
            self.save(message)

    def save(self, message: Message) -> None:
        """Store a new message, or one whose status was changed."""
        self._queue(message.inbox_id).add(message)
        self.messages.save(message.number, message)

    def _add(
        self, inbox_id: str, message_id: MessageId, at: float, payload: Any, attributes: dict[str, Any]
    ) -> None:
        self._last_number += 1
        self.save(Message(self._last_number, message_id, inbox_id, at, payload, **attributes))

    def _queue(self, inbox_id: str) -> MessageQueue:
        return self.queues.setdefault(inbox_id, MessageQueue())

    def _delete(self, inbox: Inbox) -> None:
        queue = self.queues.pop(inbox.id, MessageQueue())
        for number in (*queue.live, *queue.acked):
            self.messages.forget(number)
        for lease_id in queue.leases:
            self.leases.forget(lease_id)


def _check(attributes: dict[str, Any]) -> None:
    if not set(attributes) <= SETTABLE:
        raise invalid_field("attributes", f"only {', '.join(sorted(SETTABLE))} can be set.")


def _cursor(direction: str, key: int) -> str:
    return CURSOR_MARK + base64.b64encode(json.dumps({direction: key}).encode()).decode()


def _read_cursor(cursor: str | None) -> tuple[str, int]:
    if not cursor:
        return "after", 0
    try:
        if not cursor.startswith(CURSOR_MARK):
            raise ValueError(cursor)
        value = json.loads(base64.b64decode(cursor[len(CURSOR_MARK) :], validate=True))
        ((direction, key),) = value.items()
        if direction not in ("after", "before") or not isinstance(key, int):
            raise ValueError(direction)
    except (ValueError, AttributeError, binascii.Error):
        raise invalid_parameter("cursor", "the service did not issue this cursor.") from None
    return direction, key
