"""The mailboxes of all inboxes: kept in the journal, and settled whenever somebody looks."""

from __future__ import annotations

from typing import Any

from airflow_provider_workflow.emulator.core import Core, Notice
from airflow_provider_workflow.emulator.inboxes import Inboxes
from airflow_provider_workflow.emulator.mailbox import Mailbox
from airflow_provider_workflow.emulator.records import Inbox, Lease, Message


class Mailboxes:
    """
    What :mod:`messages` and :mod:`leases` share. Its methods belong into an atomic section.

    :param core: clock, settings, journal.
    :param inboxes: whose mailboxes these are.
    """

    def __init__(self, core: Core, inboxes: Inboxes) -> None:
        self.core = core
        self.inboxes = inboxes
        self._boxes: dict[str, Mailbox] = {}
        self._last_number = 0
        inboxes.on_deleted.append(self._drop)

    def restore(self) -> None:
        """Take up what the journal kept."""
        payloads = dict(self.core.journal.load("payload"))
        for number, values in self.core.journal.load("message"):
            message = Message(*values)
            self._box(message.inbox_id).add(message, payloads.get(number))
            self._last_number = message.number
        for _, values in self.core.journal.load("lease"):
            lease = Lease(*values)
            self._box(lease.inbox_id).hold(lease)

    def clear(self) -> None:
        """Forget every message."""
        self._boxes.clear()

    def ids(self) -> list[str]:
        """List the inboxes that have a mailbox."""
        return list(self._boxes)

    def settled(self, inbox_id: str) -> tuple[Inbox, Mailbox]:
        """
        Find an inbox and its mailbox, after the leases that have run out were ended.

        :raises ServiceError: 404 for an unknown or deleted inbox.
        """
        inbox, box = self.inboxes.get(inbox_id), self._box(inbox_id)
        for lease in box.due(self.core.clock.now()):
            returned = [box.live[number] for number in lease.numbers]
            lease.numbers = []
            self.save_lease(lease)
            self.inboxes.count(inbox, expired=len(returned))
            self.give_back(inbox, box, returned)
        return inbox, box

    def give_back(self, inbox: Inbox, box: Mailbox, messages: list[Message]) -> None:
        """End a lease of messages without acknowledgement: the queue has them again, or quarantine."""
        queued = 0
        for message in messages:
            message.lease_id = None
            if message.lease_count >= self.core.settings.quarantine_after:
                message.status = "quarantined"
                self.inboxes.count(inbox, quarantined=1)
            else:
                message.status = "available"
                box.enqueue(message)
                queued += 1
            self.save(message)
        if queued and self.core.settings.notify_redelivery:
            self.core.announce(Notice(inbox.id, queued, inbox.notification_url, redelivery=True))

    def arrive(self, message: Message, payload: Any) -> None:
        """Take in a message that is new."""
        self._box(message.inbox_id).add(message, payload)
        self.core.journal.save("payload", message.number, payload)
        self.save(message)

    def next_number(self) -> int:
        """Count a delivery."""
        self._last_number += 1
        return self._last_number

    def save(self, message: Message) -> None:
        """Note that a message is new or changed."""
        self.core.journal.save("message", message.number, message)

    def save_lease(self, lease: Lease) -> None:
        """Note that a lease is new or changed."""
        self.core.journal.save("lease", lease.id, lease)

    def _box(self, inbox_id: str) -> Mailbox:
        return self._boxes.setdefault(inbox_id, Mailbox())

    def _drop(self, inbox: Inbox) -> None:
        box = self._boxes.pop(inbox.id, Mailbox())
        for number in (*box.live, *box.acked):
            self.core.journal.forget("message", number)
            self.core.journal.forget("payload", number)
        for lease_id in box.leases:
            self.core.journal.forget("lease", lease_id)
