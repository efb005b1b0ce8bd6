"""How messages come in, and what control does to them (specification 2.10, service facts 3 and 4)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from airflow_provider_workflow.emulator.core import Core, Notice, atomic
from airflow_provider_workflow.emulator.errors import invalid_field
from airflow_provider_workflow.emulator.mailbox import Mailbox
from airflow_provider_workflow.emulator.mailboxes import Mailboxes
from airflow_provider_workflow.emulator.records import Message

SETTABLE = ("error_message", "possible_duplicate_data", "lease_count")
"""Attributes of a message that control may set."""


class Put(NamedTuple):
    """
    What became of messages that were put.

    :param ids: of those that are in the inbox now.
    :param dropped: how many were dropped, because the inbox was not active (service facts 4).
    :param status: the inbox's status, which tells why.
    """

    ids: list[str]
    dropped: int
    status: str


class Messages:
    """
    The side of the inbox that its subscription fills.

    :param core: clock, settings, journal.
    :param mailboxes: where the messages go.
    """

    def __init__(self, core: Core, mailboxes: Mailboxes) -> None:
        self.core = core
        self.mailboxes = mailboxes

    @atomic
    def put(
        self,
        inbox_id: str,
        payloads: Sequence[Any],
        *,
        ids: Sequence[str] | None = None,
        attributes: dict[str, Any] | None = None,
        announce: bool = True,
    ) -> Put:
        """
        Let messages arrive. An inbox that is not active drops them (of a paused one this is
        published, of the other states assumed).

        :param inbox_id: where.
        :param payloads: one per message.
        :param ids: one per message, any strings; left out, they are made up. An id that is there
            already is delivered once more.
        :param attributes: ``error_message``, ``possible_duplicate_data``, ``lease_count`` of each.
        :param announce: False loses the notice to event streams and webhook.
        :raises ServiceError: 404 for an unknown inbox, 400 for other arguments.
        """
        inbox, _ = self.mailboxes.settled(inbox_id)
        if ids is not None and len(ids) != len(payloads):
            raise invalid_field("ids", "must be as many as payloads.")
        _check(attributes or {})
        if inbox.status != "active":
            self.mailboxes.inboxes.count(inbox, dropped=len(payloads))
            return Put([], len(payloads), inbox.status)
        chosen = list(ids) if ids is not None else [str(uuid.uuid4()) for _ in payloads]
        for message_id, payload in zip(chosen, payloads, strict=True):
            message = Message(self.mailboxes.next_number(), message_id, inbox_id, self.core.clock.now())
            _set(message, attributes or {})
            self.mailboxes.arrive(message, payload)
        self.mailboxes.inboxes.count(inbox, put=len(chosen))
        if announce and chosen:
            self.core.announce(Notice(inbox_id, len(chosen), inbox.notification_url))
        return Put(chosen, 0, inbox.status)

    @atomic
    def deliver_again(self, inbox_id: str, lease_id: str) -> int:
        """
        Queue a second delivery of every message of a lease, beside the first.

        :return: how many.
        """
        _, box = self.mailboxes.settled(inbox_id)
        numbers = list(box.leases[lease_id].numbers)
        for number in numbers:
            first = box.live[number]
            again = Message(
                self.mailboxes.next_number(), first.id, inbox_id, first.created_at, duplicate=True
            )
            again.lease_count = first.lease_count
            self.mailboxes.arrive(again, box.payloads[number])
        return len(numbers)

    @atomic
    def set_attributes(self, inbox_id: str, message_id: str, attributes: dict[str, Any]) -> None:
        """
        Set ``error_message``, ``possible_duplicate_data`` or ``lease_count`` of a message.

        :raises ServiceError: 400 for an unknown message or another attribute.
        """
        _, box = self.mailboxes.settled(inbox_id)
        found = [each for each in box.live.values() if each.id == message_id]
        if not found:
            raise invalid_field("message_id", "no such message.")
        _check(attributes)
        for message in found:
            _set(message, attributes)
            self.mailboxes.save(message)

    @atomic
    def mailbox(self, inbox_id: str) -> Mailbox:
        """Look at the messages and leases of an inbox as they are now."""
        return self.mailboxes.settled(inbox_id)[1]


def _check(attributes: dict[str, Any]) -> None:
    if not set(attributes) <= set(SETTABLE):
        raise invalid_field("attributes", f"only {', '.join(SETTABLE)} can be set.")


def _set(message: Message, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(message, name, value)
