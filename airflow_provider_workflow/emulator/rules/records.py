"""What the service stores, as records that the journal can keep, and how its responses show them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from operator import attrgetter
from typing import Any

MessageId = str | int | float | None
"""The id of a message: a UUID unless somebody chose another JSON scalar. None: it has none."""


def id_text(message_id: MessageId) -> str | None:
    """Write a message id as text, in which 17 and "17" are the same; None without an id."""
    return message_id if message_id is None or isinstance(message_id, str) else json.dumps(message_id)


def iso(moment: float | None) -> str | None:
    """Write a moment (seconds since 1970) as ISO 8601 in UTC."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="milliseconds")[:-6] + "Z"


def new_counters() -> dict[str, int]:
    """Start the counters of an inbox."""
    names = ("put", "dropped", "leases", "leased", "acks", "releases", "expired", "quarantined")
    return dict.fromkeys(names, 0)


@dataclass(slots=True)
class Inbox:
    """
    A trigger inbox (docs/service.md 2.1).

    :param number: counts inboxes, in the order of their creation.
    :param changes_at: when ``changes_to`` becomes its status (seconds since 1970), or None.
    :param changes_to: ``active``, ``initialization_failure`` or ``deleted``.
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
    changes_at: float | None = None
    changes_to: str | None = None
    counters: dict[str, int] = field(default_factory=new_counters)

    def view(self) -> dict[str, Any]:
        """Show the inbox: all fields always, and ``key`` as newer servers send it (docs/service.md 2)."""
        return {
            "id": self.id,
            "created_at": iso(self.created_at),
            "name": self.name,
            "key": self.name,
            "status": self.status,
            "paused_reason": self.paused_reason,
            "notification_url": self.notification_url,
            "subscription": self.subscription,
        }

    def attributes(self) -> dict[str, Any]:
        """Show the state of the inbox as leases carry it."""
        return {"status": self.status, "paused_reason": self.paused_reason}


@dataclass(slots=True)
class Message:
    """
    One delivery of a message (docs/service.md 3), without its payload.

    :param number: counts deliveries; two deliveries may carry the same ``id``.
    :param id: None where the service is to send the message without one.
    :param duplicate: whether a control call made it, to deliver an ``id`` twice.
    """

    number: int
    id: MessageId
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

    def view(self) -> dict[str, Any]:
        """Show the message as lists do: never with its payload."""
        return {
            **({} if self.id is None else {"id": self.id}),
            "created_at": iso(self.created_at),
            "status": self.status,
            "message_attributes": {
                "lease_count": self.lease_count,
                "error_message": self.error_message,
                "possible_duplicate_data": self.possible_duplicate_data,
            },
        }

    def detailed_view(self) -> dict[str, Any]:
        """Show everything about the message but its payload, for control calls."""
        return {
            "id": self.id,
            "status": self.status,
            "lease_count": self.lease_count,
            "error_message": self.error_message,
            "possible_duplicate_data": self.possible_duplicate_data,
            "duplicate": self.duplicate,
            "lease_id": self.lease_id,
            "put_at": self.created_at,
            "leased_at": self.leased_at,
            "acked_at": self.acked_at,
        }


@dataclass(slots=True)
class Lease:
    """
    Messages that one consumer may work on until a moment (docs/service.md 3.2).

    :param leased_until: end of the lease, seconds since 1970.
    :param numbers: the messages it still holds; empty once it has expired.
    """

    id: str
    inbox_id: str
    leased_until: float
    numbers: list[int]


@dataclass(slots=True)
class AccessToken:
    """
    A Bearer token (docs/service.md 9.2).

    :param grant: the grant that issued it; ``client_credentials`` makes it an app token.
    """

    value: str
    scope: str
    grant: str
    expires_at: float


@dataclass(slots=True)
class Code:
    """An authorization code: single use, short-lived (docs/service.md 14.3)."""

    value: str
    scope: str
    redirect_uri: str
    expires_at: float


@dataclass(slots=True)
class RefreshToken:
    """A refresh token: single use, never expires (docs/service.md 14.3)."""

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
