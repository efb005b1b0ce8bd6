"""The messages of an inbox, and the stream that announces them (docs/service.md 3, 4 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs

from airflow_provider_workflow.client import types, wire
from airflow_provider_workflow.client.api.inboxes import path_to
from airflow_provider_workflow.client.arguments import (
    LEASE_LIMIT,
    LEASE_SECONDS,
    PAGE_SIZE,
    given,
    id_list,
    opaque,
    within,
)
from airflow_provider_workflow.client.call import Call, Family


def list_messages(
    inbox_id: str, cursor: str | None = None, limit: int | None = None
) -> Call[types.MessagePage]:
    """
    One page of the messages of an inbox, quarantined ones included, payloads not (docs/service.md 4).

    :param cursor: from ``next_cursor`` of the page before; None begins.
    :param limit: messages in the page, 1 to 100; None leaves it to the service.
    """
    if limit is not None:
        within("limit", limit, (1, PAGE_SIZE))
    query = given(cursor=cursor, limit=limit)
    return Call("list_messages", "GET", Family.INBOX, path_to(inbox_id, "/messages"), wire.page, query=query)


def next_cursor(page: types.MessagePage) -> str | None:
    """
    The cursor of the page after this one, or None at the end.

    Only the cursor is taken from the ``next`` address, so that a token never follows it to another host.
    """
    # Not ``urlsplit``, which refuses some addresses for their host.
    query = (page.get("next") or "").partition("#")[0].partition("?")[2]
    return parse_qs(query).get("cursor", [None])[0]


def lease_messages(inbox_id: str, lease_limit: int = 10, lease_seconds: int = 300) -> Call[types.Lease]:
    """
    Lease messages. An empty inbox answers with ``lease_id`` None.

    :param lease_limit: messages at most, 1 to 100.
    :param lease_seconds: how long they stay leased, 1 to 3600 s; no call extends it.
    """
    body = {
        "lease_seconds": within("lease_seconds", lease_seconds, LEASE_SECONDS),
        "lease_limit": within("lease_limit", lease_limit, LEASE_LIMIT),
    }
    path = path_to(inbox_id, "/messages/lease")
    return Call("lease_messages", "POST", Family.INBOX, path, wire.lease, json=body, repeatable=False)


def acknowledge_messages(
    inbox_id: str, lease_id: str, message_ids: Sequence[str] | None = None
) -> Call[types.Acknowledged]:
    """
    Remove leased messages for good (docs/service.md 3.2). Repeating it does no harm.

    :param message_ids: 1 to 100 of the lease; None for all of it.
    """
    body = {"lease_id": opaque("lease_id", lease_id), **id_list(message_ids)}
    path = path_to(inbox_id, "/messages/ack")
    return Call("acknowledge_messages", "POST", Family.INBOX, path, wire.receipt, json=body, urgent=True)


def release_messages(
    inbox_id: str, lease_id: str, message_ids: Sequence[str] | None = None
) -> Call[types.Released]:
    """
    Make leased messages leasable again at once. The attempt is not given back.

    :param message_ids: 1 to 100 of the lease; None for all of it.
    """
    body = {"lease_id": opaque("lease_id", lease_id), **id_list(message_ids)}
    path = path_to(inbox_id, "/messages/release")
    return Call("release_messages", "POST", Family.INBOX, path, wire.receipt, json=body, urgent=True)


def events(inbox_id: str) -> Call[None]:
    """The event stream of an inbox (docs/service.md 5); ``event_stream.py`` opens it."""
    return Call("events", "GET", Family.INBOX, path_to(inbox_id, "/events"), wire.nothing)
