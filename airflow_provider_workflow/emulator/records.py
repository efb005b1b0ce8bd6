"""What the service remembers, as plain records that the journal can keep."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any


def new_counters() -> dict[str, int]:
    """Start the counters of an inbox."""
    names = ("put", "dropped", "leases", "leased", "acks", "releases", "expired", "quarantined")
    return dict.fromkeys(names, 0)


@dataclass(slots=True)
class Inbox:
    """
    A trigger inbox (specification 2.9).

    :param number: counts inboxes, in the order of their creation.
    :param settles_at: when ``settles_to`` becomes its status (seconds since 1970), or None.
    :param settles_to: ``active``, ``initialization_failure`` or ``deleted``.
    """

    id: str
    created_at: float
    name: str | None
    status: str
    paused_reason: str | None
    paused_at: float | None
    notification_url: str | None
    subscription: dict[str, Any]
    number: int = 0
    settles_at: float | None = None
    settles_to: str | None = None
    counters: dict[str, int] = field(default_factory=new_counters)


@dataclass(slots=True)
class Message:
    """
    One delivery of a message (specification 2.10, service facts 3), without its payload.

    :param number: counts deliveries; two deliveries may carry the same ``id``.
    :param duplicate: whether a control call made it, to deliver an ``id`` twice.
    """

    number: int
    id: str
    inbox_id: str
    created_at: float
    status: str = "available"
    lease_count: int = 0
    error_message: str | None = None
    possible_duplicate_data: bool = False
    lease_id: str | None = None
    leased_at: float | None = None
    acked_at: float | None = None
    duplicate: bool = False


@dataclass(slots=True)
class Lease:
    """
    Messages handed out until a moment (specification 3.2).

    :param leased_until: end of the lease, seconds since 1970.
    :param numbers: the messages it still holds; empty once it ran out.
    """

    id: str
    inbox_id: str
    leased_until: float
    numbers: list[int]


@dataclass(slots=True)
class AccessToken:
    """
    A Bearer token (specification 2.8).

    :param grant: the grant that issued it; ``client_credentials`` makes it an app token.
    """

    value: str
    scope: str
    grant: str
    expires_at: float


@dataclass(slots=True)
class Code:
    """An authorization code: single use, short-lived (specification 5.2)."""

    value: str
    scope: str
    redirect_uri: str
    expires_at: float


@dataclass(slots=True)
class RefreshToken:
    """A refresh token: single use, never expires (specification 5.2)."""

    value: str
    scope: str


_GETTERS = {
    record: attrgetter(*(each.name for each in fields(record)))
    for record in (Inbox, Message, Lease, AccessToken, Code, RefreshToken)
}


def pack(record: Any) -> Any:
    """Turn a record into the values of its fields, in order; anything else stays as it is."""
    getter = _GETTERS.get(type(record))
    return getter(record) if getter else record
