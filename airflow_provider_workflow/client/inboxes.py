"""Calls to an inbox by its id or name, and listings of several pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from itertools import count
from typing import Any, TypeVar

from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.arguments import PAGE_SIZE, at_least_one, filled
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.errors import NotFoundError
from airflow_provider_workflow.client.settings import Settings

INITIALIZING = "initializing"
ACTIVE = "active"
PAUSED = "paused"
DELETING = "deleting"
"""A new inbox may already have its name."""
FAILED = "initialization_failure"
"""The fix is to delete the inbox and create it again (docs/service.md 2.2)."""
SETTLED_STATES = frozenset({ACTIVE, PAUSED, FAILED})
"""States that do not change without a call; ``initializing``, ``deleting`` and unknown ones are transient."""

T = TypeVar("T")

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_known: dict[tuple[Settings, str], str] = {}


def is_id(inbox: str) -> bool:
    """Whether this is the id of an inbox, which is never reused, and not a name."""
    return _UUID.fullmatch(inbox) is not None


def at_inbox(settings: Settings, inbox: str, make: Callable[[str], Call[T]]) -> Generator[Call[Any], Any, T]:
    """
    Send a call to an inbox.

    A name is looked up once per process. If the inbox has been deleted, the name is looked up again, as a
    new inbox may have it.

    :param inbox: id or name.
    :param make: returns the call for an inbox id; called first to check its arguments.
    :raises NotFoundError: there is no such inbox.
    """
    make(filled("inbox", inbox))
    if is_id(inbox):
        value: T = yield make(inbox)
        return value
    known = _known.get((settings, inbox))
    if known is not None:
        call = make(known)
        try:
            value = yield call
        except NotFoundError:
            _known.pop((settings, inbox), None)
        else:
            if not _is_being_deleted(value):
                return value
            _known.pop((settings, inbox), None)
            if not _had_no_effect(call, value):
                return value
    inbox_id = yield from look_up(settings, inbox)
    value = yield make(inbox_id)
    return value


def id_of(settings: Settings, inbox: str) -> Generator[Call[Any], Any, str]:
    """
    The id of an inbox; without a call if it is known. The inbox may have been deleted since.

    :param inbox: id or name.
    :raises NotFoundError: no inbox of this connection has the name.
    """
    if is_id(inbox):
        return inbox
    return _known.get((settings, inbox)) or (yield from look_up(settings, inbox))


def _is_being_deleted(value: Any) -> bool:
    """Whether the inbox in an answer is being deleted."""
    if not isinstance(value, dict):
        return False
    shown = value.get("inbox_attributes") or value
    return isinstance(shown, dict) and shown.get("status") == DELETING


def _had_no_effect(call: Call[Any], value: Any) -> bool:
    """Whether the call can be repeated for another inbox: it was a GET, or leased no messages."""
    return call.method == "GET" or value.get("results") == []


def look_up(settings: Settings, name: str) -> Generator[Call[Any], Any, str]:
    """
    The id of the inbox with this name.

    :raises NotFoundError: no inbox of this connection has the name.
    """
    found = yield from all_inboxes(name=name)
    for inbox in found:
        if inbox.get("name") == name and inbox.get("status") != DELETING:
            _known[settings, name] = inbox["id"]
            return inbox["id"]
    fix = "create it first, or check the connection's account"
    if any("name" not in inbox for inbox in found):
        # An inbox without a name is never used: messages of another inbox would start this inbox's DAG.
        fix = "the service lists inboxes without their names, so give the inbox's id instead"
    raise NotFoundError(f"there is no inbox with the name or id {name!r}; {fix}", status=404)


def _unseen(seen: set[Any], page: list[Any]) -> list[Any]:
    """
    The items of a page that were not in earlier pages.

    Lists change while they are read, and reading ends even if the service returns the same page every time.
    """
    unseen = [each for each in page if each.get("id") not in seen]
    seen.update(each.get("id") for each in unseen)
    return unseen


def all_inboxes(
    status: str | None = None, name: str | None = None
) -> Generator[Call[types.InboxPage], types.InboxPage, list[types.Inbox]]:
    """All inboxes, page by page."""
    found: list[types.Inbox] = []
    seen: set[Any] = set()
    offset = 0
    while True:
        page = yield api.list_inboxes(offset=offset, status=status, name=name)
        unseen = _unseen(seen, page["results"])
        found += unseen
        offset += len(page["results"])
        if not unseen or not page.get("next"):
            return found


def all_messages(
    inbox_id: str, pages: int | None = None
) -> Generator[Call[types.MessagePage], types.MessagePage, list[types.Message]]:
    """
    All messages of an inbox, page by page.

    :param pages: maximum number of pages, 1 or more; None for all.
    """
    found, _ = yield from first_messages(inbox_id, pages)
    return found


def first_messages(
    inbox_id: str, pages: int | None
) -> Generator[Call[types.MessagePage], types.MessagePage, tuple[list[types.Message], bool]]:
    """
    The messages of an inbox, page by page, and whether there are more.

    :param pages: maximum number of pages, 1 or more; None for all.
    """
    found: list[types.Message] = []
    seen: set[Any] = set()
    cursor: str | None = None
    for number in count(1):
        page = yield api.list_messages(inbox_id, cursor)
        found += _unseen(seen, page["results"])
        before, cursor = cursor, api.next_cursor(page)
        if cursor is None or cursor == before:
            return found, False
        if number == pages:
            break
    return found, True


def all_templates(
    apps: list[str] | None, limit: int | None
) -> Generator[Call[list[types.Template]], list[types.Template], list[types.Template]]:
    """
    Templates, page by page until a page is not full.

    :param limit: maximum number of templates, 1 or more; None for all.
    """
    if limit is not None:
        at_least_one("limit", limit)
    found: list[types.Template] = []
    seen: set[Any] = set()
    offset = 0
    while True:
        page = yield api.list_templates(apps, PAGE_SIZE, offset)
        unseen = _unseen(seen, page)
        found += unseen
        offset += len(page)
        if limit is not None and len(found) >= limit:
            return found[:limit]
        if not unseen or len(page) < PAGE_SIZE:
            return found
