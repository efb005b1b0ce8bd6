"""Lease, acknowledge, release: delivery at least once (specification 3.2, service facts 4)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from airflow_provider_workflow.emulator.core import Core, atomic
from airflow_provider_workflow.emulator.errors import ServiceError
from airflow_provider_workflow.emulator.mailbox import Mailbox
from airflow_provider_workflow.emulator.mailboxes import Mailboxes
from airflow_provider_workflow.emulator.records import Inbox, Lease, Message
from airflow_provider_workflow.emulator.views import inbox_attributes, iso, message_view


class Leases:
    """
    The side of the inbox that its consumer works on. Every method returns the body of its answer.

    :param core: clock, settings, journal.
    :param mailboxes: where the messages are.
    """

    def __init__(self, core: Core, mailboxes: Mailboxes) -> None:
        self.core = core
        self.mailboxes = mailboxes

    @atomic
    def lease(self, inbox_id: str, lease_seconds: float = 300, lease_limit: int = 10) -> dict[str, Any]:
        """
        Hand out the oldest leasable messages.

        :param lease_seconds: how long, 1 to 3600.
        :param lease_limit: how many at most, 1 to 100.
        :return: ``lease_id`` is None when there was nothing.
        :raises ServiceError: 404, and 409 when the inbox is paused and drained.
        """
        inbox, box = self.mailboxes.settled(inbox_id)
        taken = box.take(lease_limit) if inbox.status in ("active", "paused") else []
        if not taken:
            if inbox.status == "paused" and box.drained:
                raise paused_and_drained(inbox)
            nothing: dict[str, Any] = {"lease_id": None, "leased_until": None, "results": []}
            return {**nothing, "inbox_attributes": inbox_attributes(inbox)}
        lease = self._hand_out(inbox, box, taken, lease_seconds)
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
        :return: ``acked_id`` is None when nothing matched.
        :raises ServiceError: 404, and 400 ``lease_expired``.
        """
        inbox, box = self.mailboxes.settled(inbox_id)
        taken = self._take_out(box, lease_id, ids)
        for message in taken:
            message.status, message.lease_id, message.acked_at = "acked", None, self.core.clock.now()
            box.shelve(message)
            self.core.journal.forget("payload", message.number)
            self.mailboxes.save(message)
        if taken:
            self.mailboxes.inboxes.count(inbox, acks=len(taken))
        return {"acked_id": _receipt(taken), "results": [message_view(each) for each in taken]}

    @atomic
    def release(self, inbox_id: str, lease_id: str, ids: Sequence[str] | None = None) -> dict[str, Any]:
        """
        Make leased messages leasable at once; the attempt is not given back.

        Arguments and errors are those of :meth:`acknowledge`.

        :return: ``released_id`` is None when nothing matched.
        """
        inbox, box = self.mailboxes.settled(inbox_id)
        taken = self._take_out(box, lease_id, ids)
        self.mailboxes.give_back(inbox, box, taken)
        if taken:
            self.mailboxes.inboxes.count(inbox, releases=len(taken))
        return {"released_id": _receipt(taken), "results": [message_view(each) for each in taken]}

    @atomic
    def expire(self, inbox_id: str | None = None, lease_id: str | None = None) -> int:
        """
        End leases now, as if their time had run out (control).

        :param inbox_id: of which inbox; None for all.
        :param lease_id: which lease; None for all.
        :return: how many leases ended.
        """
        ended = 0
        for key in [inbox_id] if inbox_id else self.mailboxes.ids():
            _, box = self.mailboxes.settled(key)
            for lease in list(box.leases.values()):
                if lease.numbers and lease_id in (None, lease.id):
                    lease.leased_until = self.core.clock.now()
                    box.hold(lease)
                    ended += 1
            self.mailboxes.settled(key)
        return ended

    def _hand_out(self, inbox: Inbox, box: Mailbox, messages: list[Message], seconds: float) -> Lease:
        now = self.core.clock.now()
        lease = Lease(str(uuid.uuid4()), inbox.id, now + seconds, [each.number for each in messages])
        box.hold(lease)
        self.mailboxes.save_lease(lease)
        for message in messages:
            message.status, message.lease_id, message.leased_at = "leased", lease.id, now
            message.lease_count += 1
            self.mailboxes.save(message)
        self.mailboxes.inboxes.count(inbox, leases=1, leased=len(messages))
        return lease

    def _take_out(self, box: Mailbox, lease_id: str, ids: Sequence[str] | None) -> list[Message]:
        """Take messages out of a lease; an unknown lease holds none (assumed)."""
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
            self.mailboxes.save_lease(lease)
        else:
            del box.leases[lease_id]
            self.core.journal.forget("lease", lease_id)
        return taken


def paused_and_drained(inbox: Inbox) -> ServiceError:
    """Answer a lease of an inbox that is paused and holds nothing more (service facts 4)."""
    detail = "The inbox is paused and holds no messages."
    attributes = {**inbox_attributes(inbox), "paused_at": iso(inbox.paused_at)}
    body = {"detail": detail, "inbox_attributes": attributes}
    return ServiceError(409, "paused", detail, body=body)


def _receipt(taken: list[Message]) -> str | None:
    return str(uuid.uuid4()) if taken else None
