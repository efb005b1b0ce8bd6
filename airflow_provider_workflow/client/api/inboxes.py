"""Inboxes (docs/service.md 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_workflow.client import types, wire
from airflow_provider_workflow.client.arguments import (
    NAME_LENGTH,
    PAGE_SIZE,
    URL_LENGTH,
    filled,
    given,
    segment,
    within,
)
from airflow_provider_workflow.client.call import Call, Family


def list_inboxes(
    limit: int = PAGE_SIZE, offset: int = 0, status: str | None = None, name: str | None = None
) -> Call[types.InboxPage]:
    """
    One page of inboxes.

    :param limit: inboxes in the page, 1 to 100.
    :param offset: inboxes to pass over, 0 or more.
    :param status: only those with this status.
    :param name: only the one with this name.
    """
    query = given(
        limit=within("limit", limit, (1, PAGE_SIZE)),
        offset=within("offset", offset, (0, 10**9)),
        status=status,
        name=name,
    )
    return Call("list_inboxes", "GET", Family.INBOX, "/inboxes", wire.page_of_inboxes, query=query)


def _new_inbox(
    subscription: types.Subscription, name: str | None, notification_url: str | None
) -> dict[str, Any]:
    if not isinstance(subscription, Mapping):
        raise ValueError("subscription must be an object with app_key and action_key")
    for field in ("app_key", "action_key"):
        filled(f"subscription.{field}", subscription.get(field, ""))
    inputs = subscription.get("inputs")
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ValueError("subscription.inputs must be an object with the trigger's fields, such as {}")
    # The service requires them, be they none (docs/service.md 2).
    body: dict[str, Any] = {"subscription": {**subscription, "inputs": dict(inputs or {})}}
    if name is not None:
        # Newer servers call it ``key`` (docs/service.md 2).
        body["name"] = body["key"] = filled("name", name, NAME_LENGTH)
    if notification_url is not None:
        body["notification_url"] = filled("notification_url", notification_url, URL_LENGTH)
    return body


def create_inbox(
    subscription: types.Subscription, name: str | None = None, notification_url: str | None = None
) -> Call[types.Inbox]:
    """
    Create an inbox; it begins as ``initializing``.

    :param subscription: ``app_key``, ``action_key``, and, where they are needed, ``inputs`` (left out: none)
        and ``connection_id``.
    :param name: up to 100 characters, unique; cannot be changed later.
    :param notification_url: told by POST when messages arrive; up to 2048 characters.
    """
    body = _new_inbox(subscription, name, notification_url)
    return Call("create_inbox", "POST", Family.INBOX, "/inboxes", wire.inbox, json=body, repeatable=False)


def ensure_inbox(
    name: str, subscription: types.Subscription, notification_url: str | None = None
) -> Call[types.Inbox]:
    """Create the inbox of this name, or return the one that has the same subscription."""
    body = _new_inbox(subscription, filled("name", name, NAME_LENGTH), notification_url)
    return Call("ensure_inbox", "PUT", Family.INBOX, "/inboxes", wire.inbox, json=body)


def path_to(inbox_id: str, rest: str = "") -> str:
    """The path of something of an inbox, its id percent-encoded."""
    return f"/inboxes/{segment('inbox_id', inbox_id)}{rest}"


def get_inbox(inbox_id: str) -> Call[types.Inbox]:
    """An inbox by its id (docs/service.md 4)."""
    return Call("get_inbox", "GET", Family.INBOX, path_to(inbox_id), wire.inbox)


def update_inbox(inbox_id: str, notification_url: str | None) -> Call[types.Inbox]:
    """Change where an inbox announces its messages; None announces them nowhere."""
    if notification_url is not None:
        filled("notification_url", notification_url, URL_LENGTH)
    body = {"notification_url": notification_url}
    return Call("update_inbox", "PATCH", Family.INBOX, path_to(inbox_id), wire.inbox, json=body)


def delete_inbox(inbox_id: str) -> Call[types.Inbox]:
    """Delete an inbox with all that is in it."""
    return Call("delete_inbox", "DELETE", Family.INBOX, path_to(inbox_id), wire.inbox)


def pause_inbox(inbox_id: str) -> Call[types.Inbox]:
    """Pause an inbox. While it is paused the service drops new events. 409 where it is paused already."""
    path = path_to(inbox_id, "/pause")
    return Call("pause_inbox", "POST", Family.INBOX, path, wire.inbox, repeatable=False)


def resume_inbox(inbox_id: str) -> Call[types.Inbox]:
    """Resume a paused inbox. 409 where it is not paused."""
    path = path_to(inbox_id, "/resume")
    return Call("resume_inbox", "POST", Family.INBOX, path, wire.inbox, repeatable=False)
