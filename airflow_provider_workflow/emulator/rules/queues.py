"""The message queue of each inbox: its messages and leases, which expire by the clock."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from airflow_provider_workflow.emulator.rules.core import Core, Notice
from airflow_provider_workflow.emulator.rules.inboxes import Inboxes
from airflow_provider_workflow.emulator.rules.records import Inbox, Lease, Message, id_text


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
