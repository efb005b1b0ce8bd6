"""The records of the service, which the journal can store, and their form in responses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

MessageId = str | int | float | None
"""The id of a message: a UUID, or another JSON scalar that a test chose; None for a message without an id."""


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def is_uuid(value: Any) -> bool:
    """Whether a value is a UUID in groups of 8, 4, 4, 4 and 12 digits."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def id_text(message_id: MessageId) -> str | None:
    """A message id as a string to compare: 17 is "17", and a UUID has no case; None without an id."""
    if message_id is None:
        return None
    text = message_id if isinstance(message_id, str) else json.dumps(message_id)
    return text.lower() if is_uuid(text) else text


def iso(moment: float | None) -> str | None:
    """Format seconds since 1970 as ISO 8601 in UTC."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def new_counters() -> dict[str, int]:
    """The counters of a new inbox."""
    names = ("put", "dropped", "leases", "leased", "acks", "releases", "expired", "quarantined")
    return dict.fromkeys(names, 0)


@dataclass(slots=True)
class Inbox:
    """
    A trigger inbox (docs/service.md 2.1).

    :param number: serial number, in the order of creation.
    :param changes_at: when the status becomes ``changes_to`` (seconds since 1970), or None.
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
        """The inbox in responses: all fields, and ``key``, which newer servers send (docs/service.md 2.1)."""
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
        """The state of the inbox in responses to leases."""
        return {"status": self.status, "paused_reason": self.paused_reason}


@dataclass(slots=True)
class Message:
    """
    One delivery of a message (docs/service.md 3), without its payload.

    :param number: serial number of the delivery; two deliveries may have the same ``id``.
    :param id: None sends the message without an id.
    :param duplicate: whether a fault made it, to deliver an ``id`` twice.
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
        """The message in lists, without its payload."""
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
        """The message in responses of control calls, without its payload."""
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
    Messages that are reserved for one consumer (docs/service.md 3.2).

    :param leased_until: end of the lease, in seconds since 1970.
    :param numbers: the messages of the lease; empty after it has expired.
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
    record: attrgetter(*(field.name for field in fields(record)))
    for record in (Inbox, Message, Lease, AccessToken, Code, RefreshToken)
}


def pack(record: Any) -> Any:
    """The values of a record's fields, in order; any other value unchanged."""
    getter = _GETTERS.get(type(record))
    return getter(record) if getter else record
