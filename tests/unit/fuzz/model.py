"""
An inbox as docs/service.md 2, 3 and 4 describe it, in as few lines as possible.

It shares nothing with the emulator, keeps no queue and no deadlines, and looks at everything each time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

LAST_LEASE = 5
"""Leases that a message may end without acknowledgement (docs/service.md 3.2, assumed)."""


@dataclass
class Delivery:
    """One delivery of a message."""

    id: Any
    payload: Any
    status: str = "available"
    leases: int = 0


@dataclass
class Lease:
    """What was handed out together, and has not been given back or acknowledged since."""

    until: float
    held: list[Delivery]
    over: bool = False


@dataclass
class Model:
    """
    :param now: seconds since 1970.
    """

    now: float
    status: str = "active"
    paused_reason: str | None = None
    deliveries: list[Delivery] = field(default_factory=list)
    leases: dict[str, Lease] = field(default_factory=dict)
    acknowledged: int = 0
    arrived: set[Any] = field(default_factory=set)

    def put(self, messages: list[tuple[Any, Any]]) -> int:
        """Messages that arrive; an inbox that is not active drops them."""
        if self.status != "active":
            return 0
        self.arrived |= {each[0] for each in messages}
        self.deliveries += [Delivery(*each) for each in messages]
        return len(messages)

    def may_lease(self, limit: int) -> tuple[int, list[Delivery]]:
        """The status that a lease is answered with, and what it hands out: the oldest first."""
        open_to = self.status in ("active", "paused")
        free = [each for each in self.deliveries if each.status == "available"][:limit] if open_to else []
        if free:
            return 201, free
        waiting = [each for each in self.deliveries if each.status != "quarantined"]
        return (409 if self.status == "paused" and not waiting else 200), []

    def lease(self, lease_id: str, seconds: float, taken: list[Delivery]) -> None:
        for each in taken:
            each.status = "leased"
            each.leases += 1
        self.leases[lease_id] = Lease(self.now + seconds, list(taken))

    def may_name(self, ids: list[Any] | None) -> bool:
        """Whether a request may name these messages: by UUIDs, or by ids that were put here."""
        return all(each in self.arrived or re.fullmatch(r"[0-9a-f-]{36}", str(each)) for each in ids or ())

    def may_end(self, lease_id: str, ids: list[Any] | None) -> tuple[int, list[Delivery]]:
        """The status that an acknowledgement or a release is answered with, and what it is about."""
        if not self.may_name(ids):
            return 400, []
        lease = self.leases.get(lease_id)
        if lease is None:
            return 200, []
        if lease.over:
            return 400, []
        chosen = [each for each in lease.held if ids is None or each.id in ids]
        return (201 if chosen else 200), chosen

    def acknowledge(self, lease_id: str, chosen: list[Delivery]) -> None:
        self._take(lease_id, chosen)
        self.deliveries = [each for each in self.deliveries if not _is_one_of(each, chosen)]
        self.acknowledged += len(chosen)

    def release(self, lease_id: str, chosen: list[Delivery]) -> None:
        self._take(lease_id, chosen)
        _come_back(chosen)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.expire([each for each in self.leases.values() if each.until <= self.now])

    def expire(self, leases: list[Lease]) -> None:
        for lease in leases:
            lease.over = True
            _come_back(lease.held)
            lease.held = []

    def _take(self, lease_id: str, chosen: list[Delivery]) -> None:
        lease = self.leases[lease_id]
        lease.held = [each for each in lease.held if not _is_one_of(each, chosen)]
        if not lease.held:
            # Nothing is left of it: from now on it is a lease that nobody knows.
            del self.leases[lease_id]


def _come_back(deliveries: list[Delivery]) -> None:
    for each in deliveries:
        each.status = "quarantined" if each.leases >= LAST_LEASE else "available"


def _is_one_of(one: Delivery, others: list[Delivery]) -> bool:
    return any(one is each for each in others)
