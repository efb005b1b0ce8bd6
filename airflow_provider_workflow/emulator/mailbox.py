"""The messages and leases of one inbox, kept so that leasing and settling need no scan."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from airflow_provider_workflow.emulator.records import Lease, Message


class Mailbox:
    """
    The shelves of one inbox.

    ``live`` holds what may still be worked on, by number; ``acked`` what was acknowledged; ``queue``
    the numbers that may be leased, oldest first; ``deadlines`` the ends of leases, soonest first.
    Both heaps may hold entries that no longer count; they are skipped when met.
    """

    def __init__(self) -> None:
        self.live: dict[int, Message] = {}
        self.acked: dict[int, Message] = {}
        self.payloads: dict[int, Any] = {}
        self.leases: dict[str, Lease] = {}
        self._queue: list[int] = []
        self._deadlines: list[tuple[float, str]] = []

    def add(self, message: Message, payload: Any) -> None:
        """Take a message in, on the shelf that its status asks for."""
        if message.status == "acked":
            self.acked[message.number] = message
            return
        self.live[message.number] = message
        self.payloads[message.number] = payload
        if message.status == "available":
            self.enqueue(message)

    def enqueue(self, message: Message) -> None:
        """Let a message be leased."""
        heappush(self._queue, message.number)

    def take(self, limit: int) -> list[Message]:
        """Take up to ``limit`` leasable messages off the queue, oldest first."""
        taken: list[Message] = []
        while self._queue and len(taken) < limit:
            message = self.live.get(heappop(self._queue))
            if message is not None and message.status == "available":
                taken.append(message)
        return taken

    def hold(self, lease: Lease) -> None:
        """Remember a lease; again after its end was moved."""
        self.leases[lease.id] = lease
        heappush(self._deadlines, (lease.leased_until, lease.id))

    def due(self, now: float) -> list[Lease]:
        """Take out the leases that have run out and still hold messages."""
        ended: list[Lease] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            lease = self.leases.get(heappop(self._deadlines)[1])
            if lease is not None and lease.numbers and lease.leased_until <= now:
                ended.append(lease)
        return ended

    def shelve(self, message: Message) -> None:
        """Move an acknowledged message away; its payload is gone for good."""
        del self.live[message.number]
        self.payloads.pop(message.number, None)
        self.acked[message.number] = message

    @property
    def drained(self) -> bool:
        """Whether there is nothing that is leasable, nor leased and so may return (assumed)."""
        return all(message.status == "quarantined" for message in self.live.values())
