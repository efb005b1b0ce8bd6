"""Messages and leases: put, lease, acknowledge, release (specification 3.2, service facts 3 and 4)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from airflow_provider_workflow.emulator.core import Core, Notice, atomic
from airflow_provider_workflow.emulator.errors import ServiceError, invalid_field
from airflow_provider_workflow.emulator.inboxes import Inboxes
from airflow_provider_workflow.emulator.mailbox import Mailbox
from airflow_provider_workflow.emulator.records import Inbox, Lease, Message
from airflow_provider_workflow.emulator.views import inbox_attributes, iso, message_view

SETTABLE = ("error_message", "possible_duplicate_data", "lease_count")
"""Attributes of a message that a control call may set."""


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
    The at-least-once rules. Leases that ran out are noticed whenever somebody looks.

    :param core: clock, settings, journal.
    :param inboxes: where the messages live.
    """

    def __init__(self, core: Core, inboxes: Inboxes) -> None:
        self.core = core
        self.inboxes = inboxes
        self._boxes: dict[str, Mailbox] = {}
        self._last_number = 0
        inboxes.on_deleted.append(self._drop_box)

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
        Let messages arrive. An inbox that is not active drops them.

        :param inbox_id: where.
        :param payloads: one per message.
        :param ids: one per message; left out, they are made up. An id that is there already is
            delivered once more.
        :param attributes: ``error_message``, ``possible_duplicate_data``, ``lease_count`` of each.
        :param announce: False loses the notice to event streams and webhook.
        """
        inbox = self.inboxes.get(inbox_id)
        if ids is not None and len(ids) != len(payloads):
            raise invalid_field("ids", "must be as many as payloads.")
        if inbox.status != "active":
            self.inboxes.count(inbox, dropped=len(payloads))
            return Put([], len(payloads), inbox.status)
        ids = list(ids) if ids is not None else [str(uuid.uuid4()) for _ in payloads]
        for each_id, payload in zip(ids, payloads, strict=True):
            message = Message(self._next_number(), each_id, inbox_id, self.core.clock.now())
            self._set(message, attributes or {})
            self._arrive(message, payload)
        self.inboxes.count(inbox, put=len(ids))
        if announce and ids:
            self.core.announce(Notice(inbox_id, len(ids), inbox.notification_url))
        return Put(ids, 0, inbox.status)

    @atomic
    def lease(self, inbox_id: str, lease_seconds: float = 300, lease_limit: int = 10) -> dict[str, Any]:
        """
        Hand out the oldest leasable messages.

        :param lease_seconds: how long, 1 to 3600.
        :param lease_limit: how many at most, 1 to 100.
        :return: the body of the answer; ``lease_id`` is None when there was nothing.
        :raises ServiceError: 409 when the inbox is paused and drained.
        """
        inbox, box = self._settled(inbox_id)
        taken = box.take(lease_limit) if inbox.status in ("active", "paused") else []
        if not taken:
            if inbox.status == "paused" and box.drained:
                raise paused_and_drained(inbox)
            empty: dict[str, Any] = {"lease_id": None, "leased_until": None, "results": []}
            return {**empty, "inbox_attributes": inbox_attributes(inbox)}
        now = self.core.clock.now()
        lease = Lease(str(uuid.uuid4()), inbox_id, now + lease_seconds, [each.number for each in taken])
        box.hold(lease)
        self.core.journal.save("lease", lease.id, lease)
        for message in taken:
            message.status, message.lease_id, message.leased_at = "leased", lease.id, now
            message.lease_count += 1
            self._save(message)
        self.inboxes.count(inbox, leases=1, leased=len(taken))
        return {
            "lease_id": lease.id,
            "leased_until": iso(lease.leased_until),
            "results": [{**message_view(each), "payload": box.payloads[each.number]} for each in taken],
            "inbox_attributes": inbox_attributes(inbox),
        }

    @atomic
    def acknowledge(self, inbox_id: str, lease_id: str, ids: Sequence[str] | None = None) -> dict[str, Any]:
        """
        Remove leased messages for good.

        :param lease_id: of the lease that holds them.
        :param ids: which; None for all that it still holds.
        :return: the body of the answer; ``acked_id`` is None when nothing matched.
        :raises ServiceError: 400 ``lease_expired``.
        """
        inbox, box = self._settled(inbox_id)
        taken = self._take_from(box, lease_id, ids)
        for message in taken:
            message.status, message.lease_id, message.acked_at = "acked", None, self.core.clock.now()
            box.shelve(message)
            self.core.journal.forget("payload", message.number)
            self._save(message)
        if taken:
            self.inboxes.count(inbox, acks=len(taken))
        return {"acked_id": str(uuid.uuid4()) if taken else None, "results": [message_view(m) for m in taken]}

    @atomic
    def release(self, inbox_id: str, lease_id: str, ids: Sequence[str] | None = None) -> dict[str, Any]:
        """
        Make leased messages leasable at once; the attempt is not given back.

        Arguments, answer and errors are those of :meth:`acknowledge`, with ``released_id``.
        """
        inbox, box = self._settled(inbox_id)
        taken = self._take_from(box, lease_id, ids)
        self._give_back(inbox, box, taken)
        if taken:
            self.inboxes.count(inbox, releases=len(taken))
        return {
            "released_id": str(uuid.uuid4()) if taken else None,
            "results": [message_view(each) for each in taken],
        }

    @atomic
    def expire(self, inbox_id: str | None = None, lease_id: str | None = None) -> int:
        """
        End leases now, as if their time had run out (control).

        :param inbox_id: of which inbox; None for all.
        :param lease_id: which lease; None for all.
        :return: how many leases ended.
        """
        ended = 0
        for key in [inbox_id] if inbox_id else list(self._boxes):
            box = self._box(key)
            for lease in [
                each for each in box.leases.values() if each.numbers and lease_id in (None, each.id)
            ]:
                lease.leased_until = self.core.clock.now()
                box.hold(lease)
                ended += 1
            self._settled(key)
        return ended

    @atomic
    def deliver_again(self, inbox_id: str, lease_id: str) -> int:
        """
        Queue a second delivery of every message of a lease, beside the first (control).

        :return: how many.
        """
        _, box = self._settled(inbox_id)
        for number in box.leases[lease_id].numbers:
            first = box.live[number]
            again = Message(self._next_number(), first.id, inbox_id, first.created_at, duplicate=True)
            again.lease_count = first.lease_count
            self._arrive(again, box.payloads[number])
        return len(box.leases[lease_id].numbers)

    @atomic
    def set_attributes(self, inbox_id: str, message_id: str, attributes: dict[str, Any]) -> None:
        """Set ``error_message``, ``possible_duplicate_data`` or ``lease_count`` of a message (control)."""
        _, box = self._settled(inbox_id)
        found = [each for each in box.live.values() if each.id == message_id]
        if not found:
            raise invalid_field("message_id", "no such message.")
        for message in found:
            self._set(message, attributes)
            self._save(message)

    @atomic
    def mailbox(self, inbox_id: str) -> Mailbox:
        """Look at the messages and leases of an inbox as they are now."""
        return self._settled(inbox_id)[1]

    def _settled(self, inbox_id: str) -> tuple[Inbox, Mailbox]:
        inbox, box = self.inboxes.get(inbox_id), self._box(inbox_id)
        for lease in box.due(self.core.clock.now()):
            returned = [box.live[number] for number in lease.numbers]
            lease.numbers = []
            self.core.journal.save("lease", lease.id, lease)
            self.inboxes.count(inbox, expired=len(returned))
            self._give_back(inbox, box, returned)
        return inbox, box

    def _give_back(self, inbox: Inbox, box: Mailbox, messages: list[Message]) -> None:
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
            self._save(message)
        if queued and self.core.settings.notify_redelivery:
            self.core.announce(Notice(inbox.id, queued, inbox.notification_url, redelivery=True))

    def _take_from(self, box: Mailbox, lease_id: str, ids: Sequence[str] | None) -> list[Message]:
        lease = box.leases.get(lease_id)
        if lease is None:
            return []
        if lease.leased_until <= self.core.clock.now():
            raise ServiceError(400, "lease_expired", "The lease ran out; its messages are delivered again.")
        wanted = None if ids is None else frozenset(ids)
        taken = [box.live[n] for n in lease.numbers if wanted is None or box.live[n].id in wanted]
        gone = {each.number for each in taken}
        lease.numbers = [number for number in lease.numbers if number not in gone]
        if lease.numbers:
            self.core.journal.save("lease", lease_id, lease)
        else:
            del box.leases[lease_id]
            self.core.journal.forget("lease", lease_id)
        return taken

    def _arrive(self, message: Message, payload: Any) -> None:
        self._box(message.inbox_id).add(message, payload)
        self.core.journal.save("payload", message.number, payload)
        self._save(message)

    def _set(self, message: Message, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            if name not in SETTABLE:
                raise invalid_field("attributes", f"only {', '.join(SETTABLE)} can be set.")
            setattr(message, name, value)

    def _box(self, inbox_id: str) -> Mailbox:
        return self._boxes.setdefault(inbox_id, Mailbox())

    def _drop_box(self, inbox: Inbox) -> None:
        box = self._boxes.pop(inbox.id, Mailbox())
        for number in (*box.live, *box.acked):
            self.core.journal.forget("message", number)
            self.core.journal.forget("payload", number)
        for lease_id in box.leases:
            self.core.journal.forget("lease", lease_id)

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _save(self, message: Message) -> None:
        self.core.journal.save("message", message.number, message)


def paused_and_drained(inbox: Inbox) -> ServiceError:
    """Answer a lease of an inbox that is paused and holds nothing more (service facts 4)."""
    detail = "The inbox is paused and holds no messages."
    attributes = {**inbox_attributes(inbox), "paused_at": iso(inbox.paused_at)}
    body = {"detail": detail, "inbox_attributes": attributes}
    return ServiceError(409, "paused", detail, body=body)
