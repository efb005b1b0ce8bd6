"""The list of inboxes, and the summary of one: the messages in it, and those of the last hour."""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.hooks.diagnosis import DROPPED, fix_of_pause
from airflow_provider_workflow.plugin import recent, service
from airflow_provider_workflow.plugin.access import Reader
from airflow_provider_workflow.plugin.answers import Kept, Key
from airflow_provider_workflow.plugin.listeners import Listeners

RECREATE = "delete it and create it again"
COUNTED = ("available", "leased", "quarantined")
WAITING = ("available", "leased")
AWAY = {"unreachable", "timeout", "rate_limited", "service_error"}
"""Errors with which the former numbers are still worth something."""
LISTED_SECONDS = 30.0
"""A summary of this age is left out of one list every 10 seconds, so that one browser requests it."""


def listing(connection_id: str, name: str | None, cursor: str | None, reader: Reader) -> dict[str, Any]:
    """
    The inboxes of a connection, up to 500.

    :raises PageError: they cannot be listed.
    """
    fetch = partial(service.list_inboxes, connection_id, name, cursor)
    kept = service.ANSWERS.get((connection_id, "inboxes", name, cursor), fetch)
    return listed(connection_id, kept.fetched(), kept.fetched_at, reader)


def one(connection_id: str, inbox_id: str, reader: Reader) -> dict[str, Any]:
    """
    A list of one inbox.

    :raises PageError: there is no such inbox, or it cannot be read.
    """
    fetch = partial(service.get_inbox, connection_id, inbox_id)
    kept = service.ANSWERS.get((connection_id, "inbox", inbox_id), fetch)
    return listed(connection_id, kept.fetched(), kept.fetched_at, reader)


def listed(connection_id: str, pages: service.Pages, fetched_at: float, reader: Reader) -> dict[str, Any]:
    """
    A list of inboxes, as JSON.

    :param fetched_at: when it was fetched, in seconds since 1970.
    """
    found = Listeners(connection_id, reader)
    return {
        "inboxes": [
            {**shown(inbox, found), "summary": _known(connection_id, inbox["id"])} for inbox in pages.items
        ],
        "next": pages.following,
        "fetched_at": clock.iso(fetched_at),
    }


def shown(inbox: dict[str, Any], found: Listeners) -> dict[str, Any]:
    """
    An inbox with its listeners, as JSON.

    :param inbox: as ``views.inbox_of`` makes it.
    """
    listeners = found.of(inbox["id"], inbox["name"])
    return {**inbox, "paused_text": _paused_text(inbox), "listeners": listeners}


def _paused_text(inbox: dict[str, Any]) -> str | None:
    if inbox["status"] == "paused":
        fix = fix_of_pause(inbox["paused_reason"], resume="press Resume", recreate=RECREATE)
        return f"{fix}; {DROPPED}"
    return RECREATE if inbox["status"] == "initialization_failure" else None


def summary(connection_id: str, inbox_id: str) -> dict[str, Any]:
    """
    The numbers of an inbox; where the service cannot be reached, the last ones that this process fetched.

    :raises PageError: there are none.
    """
    fetch = partial(_fetched, connection_id, inbox_id)
    kept = service.ANSWERS.get(_summary_key(connection_id, inbox_id), fetch, is_lasting=True)
    if kept.error is None:
        return _shown(kept)
    if kept.value is None or kept.error.code not in AWAY:
        kept.fetched()
    return {
        **_shown(kept),
        "history": recent.history(connection_id, inbox_id),
        "fetched_at": clock.iso(clock.now()),
        "error": kept.error.body,
    }


def keep_summary(connection_id: str, inbox_id: str, pages: service.Pages) -> None:
    """
    Keep the summary of an inbox whose messages were read.

    :raises PageError: the database does not answer.
    """
    service.ANSWERS.put(_summary_key(connection_id, inbox_id), _counted(connection_id, inbox_id, pages))


def _summary_key(connection_id: str, inbox_id: str) -> Key:
    return (connection_id, "summary", inbox_id)


def _known(connection_id: str, inbox_id: str) -> dict[str, Any] | None:
    """The kept summary of an inbox, for a list, which saves a browser the request for each row."""
    kept = service.ANSWERS.peek(_summary_key(connection_id, inbox_id), LISTED_SECONDS)
    return None if kept is None else _shown(kept)


def _shown(kept: Kept) -> dict[str, Any]:
    counted_at = clock.iso(kept.fetched_at)
    return {**kept.value, "fetched_at": counted_at, "counted_at": counted_at}


def _fetched(connection_id: str, inbox_id: str) -> dict[str, Any]:
    return _counted(connection_id, inbox_id, service.list_messages(connection_id, inbox_id, None))


def _counted(connection_id: str, inbox_id: str, pages: service.Pages) -> dict[str, Any]:
    created = [message["created_at"] for message in pages.items if message["status"] in WAITING]
    return {
        "counts": {name: sum(message["status"] == name for message in pages.items) for name in COUNTED},
        "is_partial": pages.following is not None,
        "oldest_created_at": min(filter(None, created), default=None),
        "history": recent.history(connection_id, inbox_id),
    }
