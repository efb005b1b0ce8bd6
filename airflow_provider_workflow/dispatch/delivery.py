"""One delivery of a message: what a lease brings, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_workflow import types
from airflow_provider_workflow.limits import DEAD_LETTER_AFTER

LAST_SAFE_DELIVERY = DEAD_LETTER_AFTER[1]
"""The delivery count from which on the service would soon quarantine a message (docs/service.md 3)."""


def delivery_count(message: types.ListedMessage) -> int | None:
    """
    How often a message was delivered, this lease included; None if the service does not say.

    A message without a count may have been delivered before, so that it may have a run or a dead letter.
    """
    attributes = message.get("message_attributes")
    count: Any = attributes.get("lease_count") if isinstance(attributes, dict) else None
    if isinstance(count, str) and count.isascii() and count.isdigit() and len(count) < 10:
        return int(count)
    is_number = isinstance(count, (int, float)) and not isinstance(count, bool)
    is_whole = is_number and count == count // 1
    return int(count) if is_whole else None


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
    :param is_first: whether neither the message nor a known copy was delivered before.
    """

    inbox_id: str
    id: str
    message: dict[str, Any]
    known_count: int | None
    is_first: bool

    @classmethod
    def of(cls, inbox_id: str, leased: Mapping[str, Any]) -> Delivery:
        """:param leased: a message in a lease of the service, or in one that was handed off."""
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
        """Whether the service would soon quarantine the message."""
        return self.count >= LAST_SAFE_DELIVERY
