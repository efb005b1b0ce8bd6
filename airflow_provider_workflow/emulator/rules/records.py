"""The records of the service, which the state file can store, and their form in responses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

MessageId = str | int | float | None
"""The id of a message: a UUID, or another JSON scalar that a test chose; None for a message without an id."""

UUID = r"(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
"""A UUID in groups of 8, 4, 4, 4 and 12 digits."""

COUNTERS = ("put", "dropped", "leases", "leased", "acks", "releases", "expired", "quarantined")


def is_uuid(value: Any) -> bool:
    """Whether a value is a UUID."""
    return isinstance(value, str) and re.fullmatch(UUID, value) is not None


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


def values_of(record: Any) -> dict[str, Any]:
    """The fields of a record."""
    return {declared.name: getattr(record, declared.name) for declared in fields(record)}


@dataclass(slots=True)
class Inbox:
    """
    A trigger inbox (docs/service.md 2.1).

    :param changes_at: when the status becomes ``changes_to`` (seconds since 1970), or None.
    :param changes_to: ``active`` or ``deleted``.
    """

    id: str
    created_at: float
    name: str | None
    notification_url: str | None
    subscription: dict[str, Any]
    status: str = "initializing"
    paused_reason: str | None = None
    paused_at: float | None = None
    changes_at: float | None = None
    changes_to: str | None = None
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))

    def view(self) -> dict[str, Any]:
        """The inbox in responses: all fields, and ``key``, which newer servers send (docs/service.md 2.1)."""
        return {
            "id": self.id,
            "created_at": iso(self.created_at),
            "name": self.name,
            "key": self.name,
            **self.attributes(),
            "notification_url": self.notification_url,
            "subscription": self.subscription,
        }

    def attributes(self) -> dict[str, Any]:
        """The state of the inbox in responses to leases."""
        return {"status": self.status, "paused_reason": self.paused_reason}


@dataclass(slots=True)
class Message:
    """
    One delivery of a message (docs/service.md 3).

    :param number: serial number of the delivery; two deliveries may have the same ``id``.
    :param id: None sends the message without an id.
    :param payload: None once the message is acknowledged.
    """

    number: int
    id: MessageId
    inbox_id: str
    created_at: float
    payload: Any
    status: str = "available"
    lease_count: int = 0
    error_message: str | None = None
    possible_duplicate_data: bool = False
    lease_id: str | None = None
    leased_at: float | None = None
    acked_at: float | None = None

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
class Token:
    """
    An access token (docs/service.md 9.2), an authorization code or a refresh token (14.3).

    :param grant: the grant that issued it; ``client_credentials`` makes an access token an app token.
    :param expires_at: in seconds since 1970; a refresh token never expires.
    :param redirect_uri: where the code was sent.
    """

    value: str
    scope: str
    grant: str = ""
    expires_at: float = 0.0
    redirect_uri: str = ""
