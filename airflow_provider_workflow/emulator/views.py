"""The bodies that the service answers with (specification 2.9 and 2.10, service facts 2 and 3)."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from airflow_provider_workflow.emulator.records import Inbox, Message


def iso(moment: float | None) -> str | None:
    """Write a moment as ISO 8601 in UTC."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="milliseconds")[:-6] + "Z"


def inbox_view(inbox: Inbox) -> dict[str, Any]:
    """Show an inbox: all fields always, and ``key`` as newer servers send it."""
    return {
        "id": inbox.id,
        "created_at": iso(inbox.created_at),
        "name": inbox.name,
        "key": inbox.name,
        "status": inbox.status,
        "paused_reason": inbox.paused_reason,
        "notification_url": inbox.notification_url,
        "subscription": inbox.subscription,
    }


def inbox_attributes(inbox: Inbox) -> dict[str, Any]:
    """Show the state of an inbox as leases carry it."""
    return {"status": inbox.status, "paused_reason": inbox.paused_reason}


def message_view(message: Message) -> dict[str, Any]:
    """Show a message as lists do: never with its payload."""
    return {
        "id": message.id,
        "created_at": iso(message.created_at),
        "status": message.status,
        "message_attributes": {
            "lease_count": message.lease_count,
            "error_message": message.error_message,
            "possible_duplicate_data": message.possible_duplicate_data,
        },
    }
