"""The queue of each inbox: messages, and leases that expire by the clock (docs/service.md 3.2 and 4)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from airflow_provider_workflow.emulator.rules.core import Core, Notice, atomic
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.inboxes import Inboxes
from airflow_provider_workflow.emulator.rules.records import Inbox, Lease, Message, MessageId, id_text, iso


class MessageQueue:
    """
    The messages and leases of one inbox; neither leasing nor expiry needs a scan.

    ``live`` has the messages that are not acknowledged, by number; ``acked`` the others; ``payloads`` the
    payloads of the live ones; ``ids`` the ids of all messages as strings. The two heaps may have outdated
    entries, which are skipped when they are popped.
    """

    def __init__(self) -> None:
        self.live: dict[int, Message] = {}
        self.acked: dict[int, Message] = {}
        self.payloads: dict[int, Any] = {}
        self.leases: dict[str, Lease] = {}
        self.ids: set[str] = set()
        self._available: list[int] = []
        self._expiries: list[tuple[float, str]] = []

    def add(self, message: Message, payload: Any) -> None:
        """Add a message; make it leasable if it is available."""
        if (text := id_text(message.id)) is not None:
            self.ids.add(text)
        if message.status == "acked":
            self.acked[message.number] = message
            return
        self.live[message.number] = message
        self.payloads[message.number] = payload
        if message.status == "available":
            self.enqueue(message)

    def enqueue(self, message: Message) -> None:
        """Make a live message leasable."""
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

    def archive(self, message: Message) -> None:
        """Move a message to the acknowledged ones, and delete its payload."""
        del self.live[message.number]
        self.payloads.pop(message.number, None)
        self.acked[message.number] = message

    @property
    def drained(self) -> bool:
        """Whether no message is available or leased; a leased one may become available again (assumed)."""
        return all(message.status == "quarantined" for message in self.live.values())


class MessageQueues:
    """
    The queues of all inboxes, stored in the journal; used by :mod:`messages` and :mod:`leases`.

    There are no timers: leases expire when a queue is read. The methods are called inside the atomic
    section.
    """

    def __init__(self, core: Core, inboxes: Inboxes) -> None:
        self.core = core
        self.inboxes = inboxes
        self._queues: dict[str, MessageQueue] = {}
        self._last_number = 0
        inboxes.on_deleted.append(self._delete)

    def restore(self) -> None:
        """Load the state from the journal."""
        payloads = dict(self.core.journal.load("payload"))
        for number, values in self.core.journal.load("message"):
            message = Message(*values)
            self._queue(message.inbox_id).add(message, payloads.get(number))
            self._last_number = message.number
        for _, values in self.core.journal.load("lease"):
            lease = Lease(*values)
            self._queue(lease.inbox_id).add_lease(lease)

    def clear(self) -> None:
        """Delete all messages."""
        self._queues.clear()

    def ids(self) -> list[str]:
        """The ids of the inboxes that have a queue."""
        return list(self._queues)

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
            self.save_lease(lease)
            self.inboxes.count(inbox, expired=len(returned))
            self.requeue(inbox, queue, returned)
        return inbox, queue

    def requeue(self, inbox: Inbox, queue: MessageQueue, messages: list[Message]) -> None:
        """Make messages available after a lease without acknowledgement, or quarantine them."""
        queued = 0
        for message in messages:
            message.lease_id = None
            if message.lease_count >= self.core.settings.quarantine_after:
                message.status = "quarantined"
                self.inboxes.count(inbox, quarantined=1)
            else:
                message.status = "available"
                queue.enqueue(message)
                queued += 1
            self.save(message)
        if queued and self.core.settings.notify_redelivery:
            self.core.announce(Notice(inbox.id, queued, inbox.notification_url, redelivery=True))

    def add(self, message: Message, payload: Any) -> None:
        """Add a new message to the queue of its inbox."""
        self._queue(message.inbox_id).add(message, payload)
        self.core.journal.save("payload", message.number, payload)
        self.save(message)

    def next_number(self) -> int:
        """The number of a new delivery."""
        self._last_number += 1
        return self._last_number

    def save(self, message: Message) -> None:
        """Store a new or changed message."""
        self.core.journal.save("message", message.number, message)

    def save_lease(self, lease: Lease) -> None:
        """Store a new or changed lease."""
        self.core.journal.save("lease", lease.id, lease)

    def _queue(self, inbox_id: str) -> MessageQueue:
        return self._queues.setdefault(inbox_id, MessageQueue())

    def _delete(self, inbox: Inbox) -> None:
        queue = self._queues.pop(inbox.id, MessageQueue())
        for number in (*queue.live, *queue.acked):
            self.core.journal.forget("message", number)
            self.core.journal.forget("payload", number)
        for lease_id in queue.leases:
            self.core.journal.forget("lease", lease_id)


class Leases:
    """
    The calls of the consumer of an inbox. Each method returns the body of its response.
    """

    def __init__(self, core: Core, queues: MessageQueues) -> None:
        self.core = core
        self.queues = queues

    @atomic
    def lease(self, inbox_id: str, lease_seconds: float = 300, lease_limit: int = 10) -> dict[str, Any]:
        """
        Lease the oldest available messages.

        :param lease_seconds: length of the lease, 1 to 3600.
        :param lease_limit: maximum number of messages, 1 to 100.
        :return: ``lease_id`` is None if there are no messages.
        :raises ServiceError: 404, and 409 if the inbox is paused and drained.
        """
        inbox, queue = self.queues.current(inbox_id)
        messages = queue.dequeue(lease_limit) if inbox.status in ("active", "paused") else []
        if not messages:
            if inbox.status == "paused" and queue.drained:
                raise paused_and_drained(inbox)
            nothing: dict[str, Any] = {"lease_id": None, "leased_until": None, "results": []}
            return {**nothing, "inbox_attributes": inbox.attributes()}
        lease = self._new_lease(inbox, queue, messages, lease_seconds)
        results = [{**message.view(), "payload": queue.payloads[message.number]} for message in messages]
        return {
            "lease_id": lease.id,
            "leased_until": iso(lease.leased_until),
            "results": results,
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
        inbox, queue = self.queues.current(inbox_id)
        messages = self._remove(queue, lease_id, ids)
        for message in messages:
            message.status, message.lease_id, message.acked_at = "acked", None, self.core.clock.now()
            queue.archive(message)
            self.core.journal.forget("payload", message.number)
            self.queues.save(message)
        if messages:
            self.queues.inboxes.count(inbox, acks=len(messages))
        return {"acked_id": _receipt(messages), "results": [message.view() for message in messages]}

    @atomic
    def release(self, inbox_id: str, lease_id: str, ids: Sequence[MessageId] | None = None) -> dict[str, Any]:
        """
        Release leased messages; their delivery counts stay.

        Arguments and errors are those of :meth:`acknowledge`.

        :return: ``released_id`` is None if no message matched.
        """
        inbox, queue = self.queues.current(inbox_id)
        messages = self._remove(queue, lease_id, ids)
        self.queues.requeue(inbox, queue, messages)
        if messages:
            self.queues.inboxes.count(inbox, releases=len(messages))
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
        for key in [inbox_id] if inbox_id else self.queues.ids():
            _, queue = self.queues.current(key)
            for lease in list(queue.leases.values()):
                if lease.numbers and (lease_id is None or lease_id.lower() == lease.id):
                    lease.leased_until = self.core.clock.now()
                    queue.add_lease(lease)
                    ended += 1
            self.queues.current(key)
        return ended

    def _new_lease(self, inbox: Inbox, queue: MessageQueue, messages: list[Message], seconds: float) -> Lease:
        now = self.core.clock.now()
        lease = Lease(str(uuid.uuid4()), inbox.id, now + seconds, [message.number for message in messages])
        queue.add_lease(lease)
        self.queues.save_lease(lease)
        for message in messages:
            message.status, message.lease_id, message.leased_at = "leased", lease.id, now
            message.lease_count += 1
            self.queues.save(message)
        self.queues.inboxes.count(inbox, leases=1, leased=len(messages))
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
            self.queues.save_lease(lease)
        else:
            del queue.leases[lease_id]
            self.core.journal.forget("lease", lease_id)
        return removed


def paused_and_drained(inbox: Inbox) -> ServiceError:
    """409 for a lease of a paused inbox without messages (docs/service.md 4.2)."""
    detail = "The inbox is paused and holds no messages."
    attributes = {**inbox.attributes(), "paused_at": iso(inbox.paused_at)}
    body = {"detail": detail, "inbox_attributes": attributes}
    return ServiceError(409, "paused", detail, body=body)


def _receipt(messages: list[Message]) -> str | None:
    return str(uuid.uuid4()) if messages else None
