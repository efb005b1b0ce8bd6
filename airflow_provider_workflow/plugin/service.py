"""
Calls to the service for the page, whose answers are kept for some seconds.

The API server runs Airflow's UI and, by default, the requests of all running tasks: a service that is slow or
away must cost it nothing. So calls are made once, never wait at a rate gate, and share one time limit. One
request fetches an answer for all that come meanwhile. If all slots are taken, a request fails at once (503).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from cachetools import TLRUCache
from cachetools import cached as cached_in

from airflow_provider_workflow import clock, moments
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.arguments import PAGE_SIZE
from airflow_provider_workflow.client.call import Call
from airflow_provider_workflow.client.errors import ConfigurationError, WorkflowError
from airflow_provider_workflow.client.inboxes import at_inbox, pages
from airflow_provider_workflow.client.settings import USER_GRANT, settings_of, without_file_reasons
from airflow_provider_workflow.client.sync_client import WorkflowClient
from airflow_provider_workflow.database.dag_runs import database
from airflow_provider_workflow.database.inbox_uses import InboxUse, inbox_uses
from airflow_provider_workflow.dispatch.delivery import delivery_count
from airflow_provider_workflow.dispatch.runs import DEAD_LETTER_PREFIX, run_id_of
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.plugin import access
from airflow_provider_workflow.plugin.responses import (
    MAX_ANSWER_SECONDS,
    MAX_FIELD_LENGTH,
    PageError,
    invalid,
    of_service,
)
from airflow_provider_workflow.text import for_page, one_line

Key = tuple[str | None, ...]
"""Begins with the id of the connection; None for an answer that depends on none."""
Fields = dict[str, Any]

MAX_REQUESTS_AT_ONCE = 8
"""Answers that are fetched, or waited for, at once in a process."""
KEPT_SECONDS = 10.0
LISTENERS: Key = (None, "listeners")
LISTENERS_SECONDS = 60.0
"""Reading the listeners reads all DAGs that have one."""
LAST_RUNS: Key = (None, "last runs")
"""The last runs of all listeners, which the answers of all users have in common."""
MAX_CACHED_ITEMS = 20_000
"""Items of all kept answers together; those that were not used for longest are dropped."""
MAX_PAGES_OF_ANSWER = 5
"""Pages of the service that one answer has at most."""
ENOUGH_SECONDS = MAX_ANSWER_SECONDS / 2
"""Once this has passed, no further page is requested: the answer has those that were read."""
MAX_TEXT_LENGTH = 300
MAX_DELIVERY_COUNT = 1_000_000


def _ends_at(key: Key, _: object, now: float) -> float:
    return now + (LISTENERS_SECONDS if key == LISTENERS else KEPT_SECONDS)


def _size(answer: Fields | PageError) -> int:
    """The items of an answer, and one for its key."""
    values = answer.values() if isinstance(answer, dict) else ()
    return min(MAX_CACHED_ITEMS, 1 + sum(len(items) for items in values if isinstance(items, list | dict)))


CACHED_ANSWERS: TLRUCache[Key, Fields | PageError, float] = TLRUCache(
    MAX_CACHED_ITEMS, _ends_at, lambda: clock.monotonic(), _size
)
_slots = threading.BoundedSemaphore(MAX_REQUESTS_AT_ONCE)
_changed = threading.Condition()
"""Guards the kept answers."""


def cached(key: Key, fetch: Callable[[], Fields]) -> Fields:
    """
    A kept answer, or a new one. May be called from any thread.

    :param fetch: returns it, or raises ``PageError``, which is kept as well.
    :raises PageError: that error, or there is no free slot (``busy``).
    """
    stored = known(key)
    if stored is None:
        with slot():
            stored = _fetched(key, fetch)
    if isinstance(stored, PageError):
        raise _again(stored)
    return stored


def known(key: Key) -> Fields | PageError | None:
    """A kept answer or error, without a fetch; None if there is none."""
    with _changed:
        return CACHED_ANSWERS.get(key)


def forget(connection_id: str) -> None:
    """Forget the answers of a connection, as something has changed."""
    with _changed:
        for key in [key for key in CACHED_ANSWERS if key[0] == connection_id]:
            CACHED_ANSWERS.pop(key, None)


@contextmanager
def slot() -> Iterator[None]:
    """
    Hold a slot during the context.

    :raises PageError: there is no free one.
    """
    if not _slots.acquire(blocking=False):
        raise _busy()
    try:
        yield
    finally:
        _slots.release()


@cached_in(CACHED_ANSWERS, key=lambda key, _: key, condition=_changed)
def _fetched(key: Key, fetch: Callable[[], Fields]) -> Fields | PageError:  # noqa: ARG001 the key of the cache
    """What another request fetches meanwhile, or else this one."""
    try:
        return fetch()
    except PageError as error:
        return _again(error)


def _busy() -> PageError:
    title = "Airflow has reached its limit of simultaneous requests to the service"
    return PageError(503, "busy", title, "wait a moment, and try again", 1)


def _again(error: PageError) -> PageError:
    """The same error without its frames, which have what the service sent."""
    return PageError(*error.args)


@contextmanager
def connected(connection_id: str) -> Iterator[WorkflowClient]:
    """
    A client for one answer, whose requests share one time limit.

    :raises PageError: there is no such connection, an argument is wrong, or a call within the context failed.
    """
    try:
        settings = settings_of(access.connection(connection_id), connection_id)
        with WorkflowClient(
            replace(settings, timeout=min(settings.timeout, MAX_ANSWER_SECONDS)),
            attempts=1,
            seconds=MAX_ANSWER_SECONDS,
            longest_wait=0.0,
            store=VariableStore(settings) if settings.grant == USER_GRANT else None,
        ) as client:
            yield client
    except ConfigurationError as error:
        raise of_service(without_file_reasons(error)) from None
    except WorkflowError as error:
        raise of_service(error) from None
    except ValueError as error:
        raise invalid(str(error)) from None


def uses() -> list[InboxUse]:
    """The tasks and watchers of deployed DAGs that use inboxes."""

    def read() -> Fields:
        with database() as session:
            return {"uses": list(inbox_uses(session))}

    stored: list[InboxUse] = cached(LISTENERS, read)["uses"]
    return stored


def list_inboxes(connection_id: str, cursor: str | None) -> Fields:
    """
    Up to 500 inboxes.

    :param cursor: ``next`` of the previous answer.
    :raises PageError: a call failed, or the cursor is invalid.
    """
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 9):
        raise invalid("the cursor of the list of inboxes is not a number")
    inboxes, end = _pages(
        connection_id,
        lambda position: api.list_inboxes(PAGE_SIZE, position),
        lambda page, position: position + len(page["results"]) if page.get("next") else None,
        int(cursor or 0),
    )
    following = None if end is None else str(end)
    return {"inboxes": list(map(inbox_of, inboxes)), "next": following, "fetched_at": _now()}


def get_inbox(connection_id: str, inbox: str) -> Fields:
    """
    A list of one inbox.

    :param inbox: id or name.
    :raises PageError: the call failed, or no inbox has the name.
    """
    with connected(connection_id) as client:
        shown = inbox_of(client.run(at_inbox, inbox, api.get_inbox))
    return {"inboxes": [shown], "next": None, "fetched_at": _now()}


def name_of(connection_id: str, inbox_id: str) -> str | None:
    """The name of an inbox; None if it was deleted, or the service does not say."""
    fetch = partial(get_inbox, connection_id, inbox_id)
    try:
        (inbox,) = cached((connection_id, "inbox", inbox_id), fetch)["inboxes"]
    except PageError:
        return None
    name: str | None = inbox["name"]
    return name


def names_of(connection_id: str) -> dict[str, str | None]:
    """The names of the first 500 inboxes by id; empty if the service does not say."""
    try:
        listing = cached((connection_id, "inboxes", None), partial(list_inboxes, connection_id, None))
    except PageError:
        return {}
    return {inbox["id"]: inbox["name"] for inbox in listing["inboxes"]}


def list_messages(connection_id: str, inbox_id: str, cursor: str | None) -> Fields:
    """
    Up to 500 messages of an inbox, without payloads.

    :param cursor: ``next`` of the previous answer.
    :raises PageError: a call failed, or the cursor is invalid.
    """
    messages, end = _pages(
        connection_id,
        lambda position: api.list_messages(inbox_id, position, PAGE_SIZE),
        lambda page, _: _usable(api.next_cursor(page)),
        cursor or None,
    )
    shown = [message_of(message, inbox_id) for message in messages]
    return {"messages": shown, "next": end, "fetched_at": _now()}


def _usable(cursor: str | None) -> str | None:
    """The cursor, or None if a browser could not send it: the list ends before it."""
    return cursor if cursor == text(cursor, MAX_FIELD_LENGTH) else None


def _pages(
    connection_id: str,
    read: Callable[[Any], Call[Any]],
    following: Callable[[Any, Any], Any],
    position: Any,
) -> tuple[list[Any], Any]:
    """Entries of a list, and the position after them (see ``client.inboxes.pages``)."""
    with connected(connection_id) as client:
        return client.run(pages, read, following, position, MAX_PAGES_OF_ANSWER, ENOUGH_SECONDS)


def _now() -> str:
    return moments.iso(clock.now())


# What is shown of an object of the service: known fields of limited size.


def text(value: Any, longest: int = MAX_TEXT_LENGTH) -> str | None:
    """
    A string that UTF-8 can encode; a number is shown as JSON. None for anything else.

    :param longest: maximum number of characters; a longer string is truncated.
    """
    shown = _string(value)
    return None if shown is None else for_page(shown, longest)


def _string(value: Any) -> str | None:
    # The dispatcher takes a number as an id too, in the same form.
    if isinstance(value, int | float):
        return json.dumps(value)
    return value if isinstance(value, str) else None


def inbox_of(value: Any) -> Fields:
    """An inbox of the service."""
    return {name: text(value.get(name)) for name in ("id", "name", "status", "paused_reason")}


def message_of(value: Any, inbox_id: str) -> Fields:
    """
    A message of the service, with the ids that its run and its dead letter have.

    :param value: an object.
    """
    attributes = value.get("message_attributes") or {}
    error, message_id = attributes.get("error_message"), _string(value.get("id"))
    count = delivery_count(value) or 0
    return {
        "id": text(message_id),
        "status": text(value.get("status")),
        "created_at": moments.normal(value.get("created_at")),
        "delivery_count": min(max(0, count), MAX_DELIVERY_COUNT),
        "error_message": one_line(error) if isinstance(error, str) else None,
        "possible_duplicate": attributes.get("possible_duplicate_data") is True,
        "run": None if message_id is None else run_id_of(message_id, inbox_id),
        "dead_letter": None if message_id is None else run_id_of(message_id, inbox_id, DEAD_LETTER_PREFIX),
    }
