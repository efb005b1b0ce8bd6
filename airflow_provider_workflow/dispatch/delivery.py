"""One delivery of a message: its content, and how often the message was delivered before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_workflow import types
from airflow_provider_workflow.limits import DEAD_LETTER_AFTER

LAST_SAFE_DELIVERY = DEAD_LETTER_AFTER[1]
"""
From this delivery count on, a message must be settled now, because the service would quarantine it after
about one more delivery (docs/service.md 3.2).
"""


def delivery_count(message: types.ListedMessage) -> int | None:
    """
    How often a message was delivered, this lease included; None if the service does not say.

    A whole number may also be sent as 4.0 or "4". A message without a count may have been delivered before,
    so callers look for its run and its dead letter.
    """
    attributes = message.get("message_attributes")
    count: Any = attributes.get("lease_count") if isinstance(attributes, dict) else None
    if isinstance(count, str):
        # More than nine digits are no count; Python refuses to convert thousands of them.
        return int(count) if count.isascii() and count.isdigit() and len(count) < 10 else None
    if isinstance(count, float):
        return int(count) if count.is_integer() else None
    return count if isinstance(count, int) and not isinstance(count, bool) else None


@dataclass(frozen=True)
class Delivery:
    """
    One delivery of a message.

    :param inbox_id: id of the inbox; another inbox may have its name by now.
    :param id: id of the message, unique within the inbox.
    :param message: the message as a DAG gets it: ``id``, ``created_at``, ``payload`` and
        ``message_attributes``, and nothing of its lease.
    :param known_count: how often the message was delivered, this delivery included; None if the service does
        not say.
    :param is_first: whether the service counts one delivery, and does not mark the message as a possible copy
        of another one. It is then taken for new, and nothing looks for an earlier run of it.
    """

    inbox_id: str
    id: str
    message: dict[str, Any]
    known_count: int | None
    is_first: bool

    @classmethod
    def of(cls, inbox_id: str, leased: Mapping[str, Any]) -> Delivery:
        """
        Read a message of a lease.

        :param inbox_id: id of the inbox.
        :param leased: the message as the service sent it, or as a trigger handed it off to its task.
        """
        attributes = leased.get("message_attributes")
        count = delivery_count(leased)  # type: ignore[arg-type]
        is_copy = isinstance(attributes, dict) and attributes.get("possible_duplicate_data") is True
        message = {
            "id": leased["id"],
            "created_at": leased.get("created_at"),
            "payload": leased.get("payload"),
            "message_attributes": attributes,
        }
        return cls(inbox_id, leased["id"], message, count, count == 1 and not is_copy)

    @property
    def count(self) -> int:
        """How often the message was delivered; 1 if the service does not say."""
        return self.known_count or 1

    @property
    def is_redelivered(self) -> bool:
        """Whether the service says that the message was delivered before."""
        return self.count > 1

    @property
    def is_last_safe(self) -> bool:
        """Whether the message must be settled now, because the service would soon quarantine it."""
        return self.count >= LAST_SAFE_DELIVERY
