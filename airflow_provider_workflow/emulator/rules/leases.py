"""Leases of messages, which expire by the clock (docs/service.md 3.2 and 4)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from airflow_provider_workflow.emulator.rules.core import Core, atomic
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.messages import MessageQueue, Messages
from airflow_provider_workflow.emulator.rules.records import Inbox, Lease, Message, MessageId, id_text, iso


class Leases:
    """
    The calls of the consumer of an inbox. Each method returns the body of its response.
    """

    def __init__(self, core: Core, messages: Messages) -> None:
        self.core = core
        self.messages = messages

    @atomic
    def lease(self, inbox_id: str, lease_seconds: float = 300, lease_limit: int = 10) -> dict[str, Any]:
        """
        Lease the oldest available messages.

        :param lease_seconds: length of the lease, 1 to 3600.
        :param lease_limit: maximum number of messages, 1 to 100.
        :return: ``lease_id`` is None if there are no messages.
        :raises ServiceError: 404, and 409 if the inbox is paused and drained.
        """
        inbox, queue = self.messages.current(inbox_id)
        messages = queue.dequeue(lease_limit) if inbox.status in ("active", "paused") else []
        if not messages and inbox.status == "paused" and queue.drained:
            raise paused_and_drained(inbox)
        lease = self._new_lease(inbox, queue, messages, lease_seconds) if messages else None
        return {
            "lease_id": lease.id if lease else None,
            "leased_until": iso(lease.leased_until) if lease else None,
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
        inbox, queue = self.messages.current(inbox_id)
        messages = self._remove(queue, lease_id, ids)
        for message in messages:
            message.status, message.lease_id, message.payload = "acked", None, None
            message.acked_at = self.core.clock.now()
            self.messages.save(message)
        self.messages.inboxes.count(inbox, acks=len(messages))
        return {"acked_id": _receipt(messages), "results": [message.view() for message in messages]}

    @atomic
    def release(self, inbox_id: str, lease_id: str, ids: Sequence[MessageId] | None = None) -> dict[str, Any]:
        """
        Release leased messages; their delivery counts stay.

        Arguments and errors are those of :meth:`acknowledge`.

        :return: ``released_id`` is None if no message matched.
        """
        inbox, queue = self.messages.current(inbox_id)
        messages = self._remove(queue, lease_id, ids)
        self.messages.requeue(inbox, messages)
        self.messages.inboxes.count(inbox, releases=len(messages))
        return {"released_id": _receipt(messages), "results": [message.view() for message in messages]}

    @atomic
    def expire(self, inbox_id: str | None = None, lease_id: str | None = None) -> int:
        """
        Expire leases now (control).

        :param inbox_id: None for all inboxes.
        :param lease_id: None for all leases.
        :return: the number of leases that expired.
        """
        ended = 0
        for key in [inbox_id] if inbox_id else list(self.messages.queues):
            queue = self.messages.queue(key)
            for lease in list(queue.leases.values()):
                if lease.numbers and (lease_id is None or lease_id.lower() == lease.id):
                    lease.leased_until = self.core.clock.now()
                    queue.add_lease(lease)
                    ended += 1
            self.messages.current(key)
        return ended

    def _new_lease(self, inbox: Inbox, queue: MessageQueue, messages: list[Message], seconds: float) -> Lease:
        now = self.core.clock.now()
        lease = Lease(str(uuid.uuid4()), inbox.id, now + seconds, [message.number for message in messages])
        queue.add_lease(lease)
        self.messages.leases.save(lease.id, lease)
        for message in messages:
            message.status, message.lease_id, message.leased_at = "leased", lease.id, now
            message.lease_count += 1
            self.messages.save(message)
        self.messages.inboxes.count(inbox, leases=1, leased=len(messages))
        return lease

    def _remove(self, queue: MessageQueue, lease_id: str, ids: Sequence[MessageId] | None) -> list[Message]:
        """Remove messages from a lease, and return them; none for an unknown lease (assumed)."""
        lease = queue.leases.get(lease_id)
        if lease is None:
            return []
        if lease.leased_until <= self.core.clock.now():
            raise ServiceError(
                400, "lease_expired", "The lease has expired; its messages will be redelivered."
            )
        chosen = None if ids is None else {id_text(message_id) for message_id in ids}
        held = [queue.live[number] for number in lease.numbers]
        removed = [message for message in held if chosen is None or id_text(message.id) in chosen]
        gone = {message.number for message in removed}
        lease.numbers = [number for number in lease.numbers if number not in gone]
        if lease.numbers:
            self.messages.leases.save(lease_id, lease)
        else:
            del queue.leases[lease_id]
            self.messages.leases.forget(lease_id)
        return removed


def paused_and_drained(inbox: Inbox) -> ServiceError:
    """409 for a lease of a paused inbox without messages (docs/service.md 4.2)."""
    detail = "The inbox is paused and holds no messages."
    attributes = {**inbox.attributes(), "paused_at": iso(inbox.paused_at)}
    body = {"detail": detail, "inbox_attributes": attributes}
    return ServiceError(409, "paused", detail, body=body)


def _receipt(messages: list[Message]) -> str | None:
    return str(uuid.uuid4()) if messages else None
