"""Puts messages into inboxes, and lists them (docs/service.md 3 and 4)."""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from airflow_provider_workflow.emulator.rules.core import Core, Notice, atomic
from airflow_provider_workflow.emulator.rules.errors import invalid_field, invalid_parameter
from airflow_provider_workflow.emulator.rules.queues import MessageQueue, MessageQueues
from airflow_provider_workflow.emulator.rules.records import Message, MessageId, id_text, iso

SETTABLE = ("error_message", "possible_duplicate_data", "lease_count")
"""Attributes of a message that control calls may set."""

CURSOR_MARK = "++++"
"""Prefix of each cursor: a client without percent-encoding would send four spaces instead."""


class Put(NamedTuple):
    """
    The result of putting messages into an inbox.

    :param ids: ids of the stored messages; None for one without an id.
    :param dropped: number of messages that were dropped, as the inbox is not active (docs/service.md 2.2).
    :param status: status of the inbox.
    """

    ids: list[Any]
    dropped: int
    status: str


class Page(NamedTuple):
    """
    A page of a list.

    :param next: cursor of the next page, or None.
    :param previous: cursor of the previous page, or None.
    """

    results: list[dict[str, Any]]
    next: str | None
    previous: str | None


class Messages:
    """
    Puts messages into inboxes, as their subscriptions would, and lists them.
    """

    def __init__(self, core: Core, queues: MessageQueues) -> None:
        self.core = core
        self.queues = queues

    @atomic
    def put(
        self,
        inbox_id: str,
        payloads: Sequence[Any],
        *,
        ids: Sequence[MessageId] | None = None,
        attributes: dict[str, Any] | None = None,
        announce: bool = True,
    ) -> Put:
        """
        Put messages into an inbox. An inbox that is not active drops them (published for a paused inbox,
        assumed for the other states).

        :param payloads: one per message.
        :param ids: one per message; UUIDs by default. Any JSON scalar is accepted, to test clients with ids
            that the service does not make: an integer, a string that is not a UUID, or None for a message
            without an id. An existing id is delivered a second time.
        :param attributes: ``error_message``, ``possible_duplicate_data``, ``lease_count`` of each message.
        :param announce: False notifies neither event streams nor the webhook.
        :raises ServiceError: 404 for an unknown inbox, 400 for invalid arguments.
        """
        inbox, _ = self.queues.current(inbox_id)
        if ids is not None and len(ids) != len(payloads):
            raise invalid_field("ids", "must have as many entries as payloads.")
        if not all(item is None or isinstance(item, (str, int, float)) for item in ids or ()):
            raise invalid_field("ids", "must hold strings, numbers, booleans or null.")
        _check(attributes or {})
        if inbox.status != "active":
            self.queues.inboxes.count(inbox, dropped=len(payloads))
            return Put([], len(payloads), inbox.status)
        chosen: list[MessageId] = [*ids] if ids is not None else [str(uuid.uuid4()) for _ in payloads]
        for message_id, payload in zip(chosen, payloads, strict=True):
            message = Message(self.queues.next_number(), message_id, inbox.id, self.core.clock.now())
            _set(message, attributes or {})
            self.queues.add(message, payload)
        self.queues.inboxes.count(inbox, put=len(chosen))
        if announce and chosen:
            self.core.announce(Notice(inbox.id, len(chosen), inbox.notification_url))
        return Put(chosen, 0, inbox.status)

    @atomic
    def deliver_again(self, inbox_id: str, lease_id: str) -> int:
        """
        Queue a second delivery of each message of a lease.

        :return: the number of messages.
        """
        inbox, queue = self.queues.current(inbox_id)
        numbers = list(queue.leases[lease_id].numbers)
        for number in numbers:
            first = queue.live[number]
            again = Message(self.queues.next_number(), first.id, inbox.id, first.created_at, duplicate=True)
            again.lease_count = first.lease_count
            self.queues.add(again, queue.payloads[number])
        return len(numbers)

    @atomic
    def set_attributes(self, inbox_id: str, message_id: MessageId, attributes: dict[str, Any]) -> None:
        """
        Set ``error_message``, ``possible_duplicate_data`` or ``lease_count`` of a message.

        :raises ServiceError: 400 for an unknown message or another attribute.
        """
        _, queue = self.queues.current(inbox_id)
        messages = [message for message in queue.live.values() if id_text(message.id) == id_text(message_id)]
        if not messages:
            raise invalid_field("message_id", "no such message.")
        _check(attributes)
        for message in messages:
            _set(message, attributes)
            self.queues.save(message)

    @atomic
    def page(self, inbox_id: str, limit: int, cursor: str | None = None) -> Page:
        """
        List the messages of an inbox, quarantined ones included, without payloads.

        :param limit: messages per page, 1 or more.
        :param cursor: from an earlier page; None for the first page.
        :raises ServiceError: 404 for an unknown inbox, 400 for an invalid cursor.
        """
        direction, number = _read_cursor(cursor)
        messages = self._listed(inbox_id)
        newest_first = self.core.settings.list_order == "newest"
        keys = [-message.number if newest_first else message.number for message in messages]
        if direction == "after":
            start = bisect_right(keys, number) if cursor else 0
        else:
            start = max(0, bisect_left(keys, number) - limit)
        chosen = slice(start, start + limit)
        results, keys_of_page = [message.view() for message in messages[chosen]], keys[chosen]
        following = _cursor("after", keys_of_page[-1]) if results and start + limit < len(messages) else None
        previous = _cursor("before", keys_of_page[0]) if results and start > 0 else None
        return Page(results, following, previous)

    @atomic
    def summary(self, inbox_id: str, *, with_messages: bool = True) -> dict[str, Any]:
        """
        Describe an inbox with all its messages, acknowledged ones included (control).

        :param with_messages: False for only the counts.
        :raises ServiceError: 404 for an unknown inbox.
        """
        inbox, queue = self.queues.current(inbox_id)
        every = sorted((*queue.live.values(), *queue.acked.values()), key=lambda message: message.number)
        counts = dict.fromkeys(("available", "leased", "acked", "quarantined"), 0)
        for message in every:
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
        return {**summary, "messages": [message.detailed_view() for message in every], "leases": leases}

    @atomic
    def queue(self, inbox_id: str) -> MessageQueue:
        """The messages and leases of an inbox, after expired leases were ended."""
        return self.queues.current(inbox_id)[1]

    def _listed(self, inbox_id: str) -> list[Message]:
        queue = self.queue(inbox_id)
        messages = list(queue.live.values())
        if self.core.settings.acked_stay_listed:
            messages += queue.acked.values()
        messages.sort(key=lambda message: message.number, reverse=self.core.settings.list_order == "newest")
        return messages


def _check(attributes: dict[str, Any]) -> None:
    if not set(attributes) <= set(SETTABLE):
        raise invalid_field("attributes", f"only {', '.join(SETTABLE)} can be set.")


def _set(message: Message, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(message, name, value)


def _cursor(direction: str, number: int) -> str:
    return CURSOR_MARK + base64.b64encode(json.dumps({direction: number}).encode()).decode()


def _read_cursor(cursor: str | None) -> tuple[str, int]:
    if not cursor:
        return "after", 0
    try:
        if not cursor.startswith(CURSOR_MARK):
            raise ValueError(cursor)
        value = json.loads(base64.b64decode(cursor[len(CURSOR_MARK) :], validate=True))
        ((direction, number),) = value.items()
        if direction not in ("after", "before") or not isinstance(number, int):
            raise ValueError(direction)
    except (ValueError, AttributeError, binascii.Error):
        raise invalid_parameter("cursor", "the service did not issue this cursor.") from None
    return direction, number
