"""
Calls to an inbox by its id or name, and listings of several pages.

Their first argument sends a call: ``await all_inboxes(client.send)`` in a trigger, and in a task
``client.run(all_inboxes)``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from airflow_provider_workflow import clock, moments, types
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.arguments import ANY_NUMBER, PAGE_SIZE, require_int, require_text
from airflow_provider_workflow.client.call import Call, Send
from airflow_provider_workflow.client.errors import NotFoundError, TransportError
from airflow_provider_workflow.types import DELETING

MAX_PAGES = 10_000
"""Pages of a list that are read at most: a million entries."""
MAX_PAGES_WITH_NAME = 100
"""Pages that are searched for the name of an inbox, if the service does not select by the name."""

COUNTED = ("available", "leased", "quarantined")
"""Statuses by which messages are counted; acknowledged ones are gone."""

T = TypeVar("T")
ListedPage = TypeVar("ListedPage", bound=list[Any] | types.Page[Any])
Position = TypeVar("Position")
"""Of a page: an offset, or a cursor, which is None for the first page."""

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)


def is_id(inbox: str) -> bool:
    """Whether this is the id of an inbox, which is never reused, and not a name."""
    return _UUID.fullmatch(inbox) is not None


async def at_inbox(send: Send, inbox: str, make: Callable[[str], Call[T]]) -> T:
    """
    Send a call to an inbox. A name is looked up each time: a new inbox may have it.

    :param inbox: id or name.
    :param make: returns the call for an inbox id; called first to check its arguments.
    :raises NotFoundError: there is no such inbox.
    """
    make(require_text("inbox", inbox))
    return await send(make(inbox if is_id(inbox) else await look_up(send, inbox)))


async def look_up(send: Send, name: str) -> str:
    """The id of the inbox with this name; see ``find``."""
    inbox = await find(send, name)
    return inbox["id"]


async def find(send: Send, name: str) -> types.Inbox:
    """
    The inbox with this name, unless it is being deleted, as the service lists it.

    :raises NotFoundError: no inbox of this connection has the name.
    """
    inboxes = await all_inboxes(send, name=name, most=MAX_PAGES_WITH_NAME)
    for inbox in inboxes:
        if inbox.get("name") == name and inbox.get("status") != DELETING:
            return inbox
    fix = "create it (airflow-workflow inbox ensure), or correct the name (see airflow-workflow inbox list)"
    if any("name" not in inbox for inbox in inboxes):
        # Not one without a name: it may be another inbox.
        fix = "the service lists inboxes without their names, so give the inbox's id instead"
    raise NotFoundError(f"Inbox {name!r} does not exist: {fix}", status=404)


async def pages(
    send: Send,
    read: Callable[[Position], Call[ListedPage]],
    following: Callable[[ListedPage, Position], Position | None],
    position: Position,
    most: int,
    seconds: float = math.inf,
) -> tuple[list[Any], Position | None]:
    """
    The entries of a list, page by page, none twice, and the position after them; None if there are no more.

    Lists change while they are read. Reading ends even if each page is the same. None stands for an
    entry with a defect, and is left out.

    :param read: returns the call for a page at a position.
    :param following: returns the position after a page at a position; None if it is the last one.
    :param position: of the first page.
    :param most: maximum number of pages, 1 or more.
    :param seconds: after which no further page is read.
    """
    entries: list[Any] = []
    seen: set[Any] = set()
    ends_at = clock.monotonic() + seconds
    for number in range(most):
        if number and clock.monotonic() >= ends_at:
            break
        page = await send(read(position))
        results: list[Any] = page if isinstance(page, list) else page["results"]
        unseen = [entry for entry in results if entry is not None and entry.get("id") not in seen]
        seen.update({entry.get("id") for entry in unseen} - {None})
        entries += unseen
        next_position = following(page, position)
        if next_position is None or next_position == position or (results and not unseen):
            return entries, None
        position = next_position
    return entries, position


def _all(list_name: str, most: int, listed: tuple[list[T], Any]) -> list[T]:
    """:raises TransportError: there are more entries."""
    entries, position = listed
    if position is not None:
        text = f"the list of {list_name} has no end: {len(entries)} entries were read in {most} pages"
        raise TransportError(text, sent=True, permanent=True)
    return entries


async def all_inboxes(
    send: Send, status: str | None = None, name: str | None = None, most: int = MAX_PAGES
) -> list[types.Inbox]:
    """
    All inboxes, page by page.

    :param most: maximum number of pages, 1 or more.
    :raises TransportError: there are more pages.
    """
    listed = await pages(
        send,
        partial(api.list_inboxes, PAGE_SIZE, status=status, name=name),
        lambda page, offset: offset + len(page["results"]) if page.get("next") else None,
        0,
        most,
    )
    return _all("inboxes", most, listed)


async def all_messages(send: Send, inbox_id: str) -> list[types.ListedMessage]:
    """
    All messages of an inbox, page by page.

    :raises TransportError: there are more pages.
    """
    listed = await first_messages(send, inbox_id, MAX_PAGES)
    return _all("messages", MAX_PAGES, listed)


async def first_messages(
    send: Send, inbox_id: str, most: int
) -> tuple[list[types.ListedMessage], str | None]:
    """
    The messages of an inbox, page by page, and the cursor after them; None if there are no more.

    :param most: maximum number of pages, 1 or more.
    """
    read = partial(api.list_messages, inbox_id)
    return await pages(send, read, lambda page, _: _cursor_after(page), None, most)


def _cursor_after(page: types.Page[types.ListedMessage]) -> str | None:
    """:raises TransportError: no request can have it, so the list cannot be read to its end."""
    cursor = api.next_cursor(page)
    try:
        (cursor or "").encode()
    except UnicodeEncodeError:
        text = "the list of messages has a next page whose cursor no request can have"
        raise TransportError(text, sent=True, permanent=True) from None
    return cursor


def count_messages(messages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """
    The numbers of ``available``, ``leased`` and ``quarantined`` messages, and ``oldest_created_at``.

    :return: ``oldest_created_at`` is that of the oldest message that is available or leased; None if unknown.
    """
    counts: dict[str, Any] = dict.fromkeys(COUNTED, 0)
    created: list[tuple[datetime, str]] = []
    for message in messages:
        status, text = message.get("status"), message.get("created_at")
        if status in COUNTED:
            counts[status] += 1
        if status in ("available", "leased") and (moment := moments.moment_of(text)) is not None:
            created.append((moment, str(text)))
    return {**counts, "oldest_created_at": min(created)[1] if created else None}


async def all_templates(send: Send, apps: list[str] | None, limit: int | None) -> list[types.Template]:
    """
    Templates, page by page until a page is not full.

    :param limit: maximum number of templates, 1 or more; None for all.
    :raises TransportError: there are more pages.
    """
    most = MAX_PAGES if limit is None else -(-require_int("limit", limit, ANY_NUMBER) // PAGE_SIZE)
    listed = await pages(
        send,
        partial(api.list_templates, apps, PAGE_SIZE),
        lambda page, offset: offset + len(page) if len(page) >= PAGE_SIZE else None,
        0,
        most,
    )
    return _all("templates", most, listed) if limit is None else listed[0][:limit]
