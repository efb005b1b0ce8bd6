"""The messages of inboxes, and their leases, which expire by the clock (docs/service.md 3 and 4)."""

from __future__ import annotations

import base64
import math
import uuid
from bisect import insort
from collections.abc import Sequence
from typing import Any

from airflow_provider_workflow.emulator.rules.core import Core, Table, atomic
from airflow_provider_workflow.emulator.rules.errors import ServiceError, invalid_field, invalid_parameter
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

CURSOR_MARK = "++++"
"""Prefix of each cursor: a client without percent-encoding would send four spaces instead."""


class MessageQueue:
    """
    The messages and leases of one inbox.

    ``live`` has the messages that are not acknowledged, by number; ``acked`` the others; ``available`` the
    numbers of those that can be leased, oldest first; ``leases`` those that have messages; ``expired`` the
    ids of the leases that have ended without an acknowledgement; ``ids`` the ids of all messages as strings.
    """

    def __init__(self) -> None:
        self.live: dict[int, Message] = {}
        self.acked: dict[int, Message] = {}
        self.available: list[int] = []
        self.leases: dict[str, Lease] = {}
        self.expired: set[str] = set()
        self.ids: set[str] = set()

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
            insort(self.available, message.number)

    def add_lease(self, lease: Lease) -> None:
        """Add a lease, or note that it has expired."""
        if lease.numbers:
            self.leases[lease.id] = lease
        else:
            self.leases.pop(lease.id, None)
            self.expired.add(lease.id)


class Messages:
    """
    Puts messages into the queues of inboxes, as their subscriptions would, and performs the calls of their
    consumers, which return the body of the response.

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
        inboxes.on_deleted.append(self._delete)

    @atomic
    def put(
        self,
        inbox_id: str,
        payloads: Sequence[Any],
        *,
        ids: Sequence[MessageId] | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> list[MessageId]:
        """
        Put messages into an inbox. An inbox that is not active drops them (published for a paused inbox,
        assumed for the other states).

        :param payloads: one per message.
        :param ids: one per message; UUIDs by default. Any JSON scalar is accepted, to test clients with ids
            that the service does not make: an integer, a string that is not a UUID, or None for a message
            without an id. An existing id is delivered a second time.
        :param attributes: ``error_message``, ``possible_duplicate_data``, ``lease_count`` of each message.
        :return: the ids of the messages; empty if they were dropped.
        :raises ServiceError: 404 for an unknown inbox, 400 for invalid arguments.
        """
        inbox, _ = self.current(inbox_id)
        chosen: list[MessageId] = [str(uuid.uuid4()) for _ in payloads] if ids is None else [*ids]
        if len(chosen) != len(payloads) or not all(item is None or _is_scalar(item) for item in chosen):
            raise invalid_field("ids", "must be a string, number, boolean or null for each payload.")
        if inbox.status != "active":
            self.inboxes.count(inbox, dropped=len(payloads))
            return []
        for message_id, payload in zip(chosen, payloads, strict=True):
            self._add(inbox.id, message_id, self.core.clock.now(), payload, attributes or {})
        self.inboxes.count(inbox, put=len(chosen))
        if chosen:
            self.core.announce(inbox.id)
        return chosen

    @atomic
    def lease(self, inbox_id: str, lease_seconds: float = 300, lease_limit: int = 10) -> dict[str, Any]:
        """
        Lease the oldest available messages.

        :param lease_seconds: length of the lease, 1 to 3600.
        :param lease_limit: maximum number of messages, 1 to 100.
        :return: ``lease_id`` is None if there are no messages.
        :raises ServiceError: 404, and 409 if the inbox is paused and holds no messages (docs/service.md 4.2).
        """
        inbox, queue = self.current(inbox_id)
        numbers = queue.available[:lease_limit] if inbox.status in ("active", "paused") else []
        messages = [queue.live[number] for number in numbers]
        if not messages:
            # A leased message may become available again (assumed).
            drained = all(message.status == "quarantined" for message in queue.live.values())
            if inbox.status == "paused" and drained:
                detail = "The inbox is paused and holds no messages."
                attributes = {**inbox.attributes(), "paused_at": iso(inbox.paused_at)}
                body = {"detail": detail, "inbox_attributes": attributes}
                raise ServiceError(409, "paused", detail, body=body)
            nothing: dict[str, Any] = {"lease_id": None, "leased_until": None, "results": []}
            return {**nothing, "inbox_attributes": inbox.attributes()}
        del queue.available[: len(numbers)]
        now = self.core.clock.now()
        lease = Lease(str(uuid.uuid4()), inbox.id, now + lease_seconds, numbers)
        queue.add_lease(self.leases.save(lease.id, lease))
        for message in messages:
            message.status, message.lease_id, message.leased_at = "leased", lease.id, now
            message.lease_count += 1
            self.save(message)
        self.inboxes.count(inbox, leases=1, leased=len(messages))
        return {
            "lease_id": lease.id,
            "leased_until": iso(lease.leased_until),
            "results": [{**message.view(), "payload": message.payload} for message in messages],
            "inbox_attributes": inbox.attributes(),
        }

    @atomic
    def acknowledge(
        self, inbox_id: str, lease_id: str, ids: Sequence[MessageId] | None = None
    ) -> dict[str, Any]:
        """
        Remove leased messages for good.

        :param ids: ids of the messages; None for all messages of the lease.
        :return: ``acked_id`` is None if no message matched.
        :raises ServiceError: 404, and 400 ``lease_expired``.
        """
        inbox, messages = self._remove(inbox_id, lease_id, ids)
        for message in messages:
            message.status, message.lease_id, message.payload = "acked", None, None
            message.acked_at = self.core.clock.now()
            self.save(message)
        self.inboxes.count(inbox, acks=len(messages))
        return _ended("acked_id", messages)

    @atomic
    def release(self, inbox_id: str, lease_id: str, ids: Sequence[MessageId] | None = None) -> dict[str, Any]:
        """
        Release leased messages; their delivery counts stay.

        Arguments and errors are those of :meth:`acknowledge`.

        :return: ``released_id`` is None if no message matched.
        """
        inbox, messages = self._remove(inbox_id, lease_id, ids)
        self.requeue(inbox, messages)
        self.inboxes.count(inbox, releases=len(messages))
        return _ended("released_id", messages)

    @atomic
    def expire(self, inbox_id: str | None = None, lease_id: str | None = None) -> int:
        """
        Expire leases now (control).

        :param inbox_id: None for all inboxes.
        :param lease_id: None for all leases.
        :return: the number of leases that expired.
        """
        ended = 0
        for key in [inbox_id] if inbox_id else list(self.queues):
            for lease in self.queue(key).leases.values():
                if lease_id is None or lease_id.lower() == lease.id:
                    lease.leased_until = self.core.clock.now()
                    ended += 1
            self.current(key)
        return ended

    def _remove(
        self, inbox_id: str, lease_id: str, ids: Sequence[MessageId] | None
    ) -> tuple[Inbox, list[Message]]:
        """Remove messages from a lease, and return them; none for an unknown lease (assumed)."""
        inbox, queue = self.current(inbox_id)
        for item in ids or ():
            # One that a test chose need not be a UUID.
            if not is_uuid(item) and not (_is_scalar(item) and id_text(item) in queue.ids):
                raise invalid_field("message_ids", "must hold UUIDs only.")
        if lease_id in queue.expired:
            detail = "The lease has expired; its messages will be redelivered."
            raise ServiceError(400, "lease_expired", detail)
        lease = queue.leases.get(lease_id)
        if lease is None:
            return inbox, []
        chosen = None if ids is None else {id_text(message_id) for message_id in ids}
        held = [queue.live[number] for number in lease.numbers]
        removed = [message for message in held if chosen is None or id_text(message.id) in chosen]
        gone = {message.number for message in removed}
        lease.numbers = [number for number in lease.numbers if number not in gone]
        if lease.numbers:
            self.leases.save(lease_id, lease)
        else:
            del queue.leases[lease_id]
            self.leases.forget(lease_id)
        return inbox, removed

    @atomic
    def deliver_again(self, inbox_id: str, lease_id: str) -> None:
        """Queue a second delivery of each message of a lease."""
        inbox, queue = self.current(inbox_id)
        for first in [queue.live[number] for number in queue.leases[lease_id].numbers]:
            attributes = {"lease_count": first.lease_count}
            self._add(inbox.id, first.id, first.created_at, first.payload, attributes)

    @atomic
    def set_attributes(self, inbox_id: str, message_id: MessageId, attributes: dict[str, Any]) -> None:
        """
        Set ``error_message``, ``possible_duplicate_data`` or ``lease_count`` of a message.

        :raises ServiceError: 400 for an unknown message.
        """
        live = self.queue(inbox_id).live.values()
        messages = [message for message in live if id_text(message.id) == id_text(message_id)]
        if not messages:
            raise invalid_field("message_id", "no such message.")
        for message in messages:
            for name, value in attributes.items():
                setattr(message, name, value)
            self.messages.save(message.number, message)

    @atomic
    def page(
        self, inbox_id: str, limit: int, cursor: str | None = None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """
        List the messages of an inbox that are not acknowledged (assumed), without payloads.

        :param limit: messages per page, 1 or more.
        :param cursor: from an earlier page; None for the first page.
        :return: the messages of the page, and the cursor of the next one, or None.
        :raises ServiceError: 404 for an unknown inbox, 400 for an invalid cursor.
        """
        sign = -1 if self.core.settings.list_order == "newest" else 1
        # A cursor names a message, so that one that goes away shifts no page.
        last = sign * _read_cursor(cursor) if cursor else -math.inf
        messages = [message for message in self.queue(inbox_id).live.values() if sign * message.number > last]
        messages.sort(key=lambda message: sign * message.number)
        page = messages[:limit]
        following = None
        if len(messages) > limit:
            following = CURSOR_MARK + base64.b64encode(str(page[-1].number).encode()).decode()
        return [message.view() for message in page], following

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
        ]
        shown = [{**values_of(message), "payload": None} for message in messages]
        return {**summary, "messages": shown, "leases": leases}

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
        now = self.core.clock.now()
        for lease in [lease for lease in queue.leases.values() if lease.leased_until <= now]:
            returned = [queue.live[number] for number in lease.numbers]
            lease.numbers = []
            queue.add_lease(self.leases.save(lease.id, lease))
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
        number = int(next(reversed(self.messages), 0)) + 1
        self.save(Message(number, message_id, inbox_id, at, payload, **attributes))

    def _queue(self, inbox_id: str) -> MessageQueue:
        return self.queues.setdefault(inbox_id, MessageQueue())

    def _delete(self, inbox: Inbox) -> None:
        queue = self.queues.pop(inbox.id, MessageQueue())
        for number in (*queue.live, *queue.acked):
            self.messages.forget(number)
        for lease_id in (*queue.leases, *queue.expired):
            self.leases.forget(lease_id)


def _ended(receipt: str, messages: list[Message]) -> dict[str, Any]:
    return {
        receipt: str(uuid.uuid4()) if messages else None,
        "results": [message.view() for message in messages],
    }


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float))


def _read_cursor(cursor: str) -> int:
    try:
        if not cursor.startswith(CURSOR_MARK):
            raise ValueError(cursor)
        return int(base64.b64decode(cursor.removeprefix(CURSOR_MARK), validate=True))
    except ValueError:
        raise invalid_parameter("cursor", "the service did not issue this cursor.") from None
