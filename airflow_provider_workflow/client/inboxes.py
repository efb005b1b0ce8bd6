"""Calls to an inbox that is given by id or by name, and listings that take several pages."""

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
"""Its name may stand for another inbox already."""
FAILED = "initialization_failure"
"""Only deleting and creating it again helps (docs/service.md 2.2)."""
SETTLED_STATES = frozenset({ACTIVE, PAUSED, FAILED})
"""States that waiting does not change; ``initializing``, ``deleting`` and unknown ones may pass."""

T = TypeVar("T")

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_known: dict[tuple[Settings, str], str] = {}


def is_id(inbox: str) -> bool:
    """Whether an inbox is given by its id, under which no other one is ever created."""
    return _UUID.fullmatch(inbox) is not None


def at_inbox(settings: Settings, inbox: str, make: Callable[[str], Call[T]]) -> Generator[Call[Any], Any, T]:
    """
    Send a call to an inbox.

    A name is looked up once per process; where its inbox was deleted, it is looked up once more, as
    another may have been created under that name.

    :param inbox: id or name.
    :param make: makes the call for an inbox id; called first to check its arguments.
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
            if not _is_going(value):
                return value
            _known.pop((settings, inbox), None)
            if not _changed_nothing(call, value):
                return value
    inbox_id = yield from look_up(settings, inbox)
    value = yield make(inbox_id)
    return value


def id_of(settings: Settings, inbox: str) -> Generator[Call[Any], Any, str]:
    """
    The id of an inbox, without a call where it is known. It may stand for one that is gone.

    :param inbox: id or name.
    :raises NotFoundError: no inbox of this connection has the name.
    """
    if is_id(inbox):
        return inbox
    return _known.get((settings, inbox)) or (yield from look_up(settings, inbox))


def _is_going(value: Any) -> bool:
    """Whether an answer shows an inbox that is being deleted."""
    if not isinstance(value, dict):
        return False
    shown = value.get("inbox_attributes") or value
    return isinstance(shown, dict) and shown.get("status") == DELETING


def _changed_nothing(call: Call[Any], value: Any) -> bool:
    """Whether a call may be made to another inbox now: it only looked, or leased nothing."""
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
        # Not taken for the one that is looked for: messages of another inbox would start this one's DAG.
        fix = "the service lists inboxes without their names, so give the inbox's id instead"
    raise NotFoundError(f"there is no inbox with the name or id {name!r}; {fix}", status=404)


def _news(seen: set[Any], page: list[Any]) -> list[Any]:
    """
    What a page adds: lists shift while they are read, and a service that shows one page for ever
    must not be listened to for ever.
    """
    news = [each for each in page if each.get("id") not in seen]
    seen.update(each.get("id") for each in news)
    return news


def all_inboxes(
    status: str | None = None, name: str | None = None
) -> Generator[Call[types.InboxPage], types.InboxPage, list[types.Inbox]]:
    """All inboxes, page by page."""
    found: list[types.Inbox] = []
    seen: set[Any] = set()
    offset = 0
    while True:
        page = yield api.list_inboxes(offset=offset, status=status, name=name)
        news = _news(seen, page["results"])
        found += news
        offset += len(page["results"])
        if not news or not page.get("next"):
            return found


def all_messages(
    inbox_id: str, pages: int | None = None
) -> Generator[Call[types.MessagePage], types.MessagePage, list[types.Message]]:
    """
    All messages of an inbox, page by page.

    :param pages: how many at most, 1 or more; None for all.
    """
    found, _ = yield from first_messages(inbox_id, pages)
    return found


def first_messages(
    inbox_id: str, pages: int | None
) -> Generator[Call[types.MessagePage], types.MessagePage, tuple[list[types.Message], bool]]:
    """
    The messages of an inbox, page by page, and whether there are more of them.

    :param pages: how many at most, 1 or more; None for all.
    """
    found: list[types.Message] = []
    seen: set[Any] = set()
    cursor: str | None = None
    for number in count(1):
        page = yield api.list_messages(inbox_id, cursor)
        found += _news(seen, page["results"])
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
    Templates, page by page until a short page.

    :param limit: templates at most, 1 or more; None for all.
    """
    if limit is not None:
        at_least_one("limit", limit)
    found: list[types.Template] = []
    seen: set[Any] = set()
    offset = 0
    while True:
        page = yield api.list_templates(apps, PAGE_SIZE, offset)
        news = _news(seen, page)
        found += news
        offset += len(page)
        if limit is not None and len(found) >= limit:
            return found[:limit]
        if not news or len(page) < PAGE_SIZE:
            return found
