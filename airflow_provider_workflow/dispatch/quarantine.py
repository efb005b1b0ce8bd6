"""
The alarm for quarantined messages: they start no run any more, and only a listing shows them.

One whose leases all ended by crashes is in nobody's hands when the service quarantines it, so whoever
works on an inbox lists it now and then. The alarm is raised once for each message: an Airflow Variable
remembers which were reported, for all tasks and triggers. It is read and written only where quarantined
messages are found; where it cannot be, each process raises the alarm once.

Nothing here raises: an alarm that fails must not stop what it watches.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock, metrics
from airflow_provider_workflow.client import inboxes, types
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.config import quarantine_check_seconds

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

QUARANTINED = "quarantined"
MOST_PAGES = 5
"""Pages that one look lists at most."""
LONGEST_LOOK_SECONDS = 30.0
"""After so long a trigger gives a look up."""
MOST_REMEMBERED = 100_000
"""Ids that a process remembers at most."""
MOST_KEPT = 2_000
"""Ids that the Variable keeps at most; as marks of 12 characters they fit into every database's text."""
PREFIX = "workflow_quarantine__"
DESCRIPTION = "Quarantined messages of an inbox that were reported, as hashes of their ids. May be deleted."

_reported: dict[str, None] = {}
_looked: dict[tuple[str, str], float] = {}
_alarms: set[asyncio.Future[None]] = set()


def look(hook: WorkflowHook, inbox: str) -> None:
    """
    List the messages of an inbox, if this process has not done so lately, and report those in quarantine.

    For tasks. One request, where the inbox holds no more than a page; none is sent twice.

    :param inbox: id or name.
    """
    conn_id = hook.workflow_conn_id
    if not _is_due(conn_id, inbox):
        return
    try:
        messages = hook.run_once(_listing(hook.settings, inbox))
    except Exception as error:
        _say_that_it_failed(inbox, error)
    else:
        report(messages, inbox=inbox, conn_id=conn_id)


async def look_in_loop(client: AsyncWorkflowClient, inbox: str) -> None:
    """
    Do the same in a trigger.

    :param inbox: id or name.
    """
    conn_id = client.settings.connection_id
    if not _is_due(conn_id, inbox):
        return
    try:
        async with clock.timeout(LONGEST_LOOK_SECONDS):
            messages = await client.run(_listing(client.settings, inbox))
    except Exception as error:
        _say_that_it_failed(inbox, error)
    else:
        report(messages, inbox=inbox, conn_id=conn_id)


def report(messages: Iterable[Mapping[str, Any]], *, inbox: str, conn_id: str) -> list[str]:
    """
    Raise the alarm for the quarantined ones among listed messages: an ERROR line and a metric for each.

    Where an event loop is running it is raised beside it, a moment later.

    :param messages: of a listing, or of a page of it.
    :param inbox: id or name.
    :param conn_id: id of the Airflow connection.
    :return: ids of those that this process had not seen in quarantine.
    """
    found = (each.get("id") for each in messages if each.get("status") == QUARANTINED)
    news = [each for each in found if isinstance(each, str) and _is_new(each)]
    if not news:
        return []
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        metrics.count(metrics.QUARANTINED, _alarm(news, inbox, conn_id), inbox=inbox, conn_id=conn_id)
        return news
    alarm = asyncio.ensure_future(_alarm_beside_the_loop(news, inbox, conn_id))
    _alarms.add(alarm)
    alarm.add_done_callback(_alarms.discard)
    return news


def _listing(settings: Settings, inbox: str) -> Generator[Any, Any, list[types.Message]]:
    inbox_id = yield from inboxes.id_of(settings, inbox)
    return (yield from inboxes.all_messages(inbox_id, MOST_PAGES))


async def _alarm_beside_the_loop(ids: list[str], inbox: str, conn_id: str) -> None:
    from asgiref.sync import sync_to_async

    number = await sync_to_async(_alarm)(ids, inbox, conn_id)
    metrics.count(metrics.QUARANTINED, number, inbox=inbox, conn_id=conn_id)


def _alarm(ids: list[str], inbox: str, conn_id: str) -> int:
    """Report those that nobody has; how many."""
    name = metrics.name_of(inbox)
    variable = _variable_name(conn_id, name)
    known = _known(variable)
    news = [each for each in ids if _mark(each) not in known]
    for message_id in news:
        log.error(
            "Inbox %s: message %s is in quarantine; it is not delivered again and starts no run",
            plain(name),
            plain(message_id),
        )
    if news:
        _keep(variable, [*known, *map(_mark, news)])
    return len(news)


def _known(variable: str) -> list[str]:
    from airflow_provider_workflow.hooks.user_tokens import read_variable

    try:
        kept = json.loads(read_variable(variable) or "[]")
        return [each for each in kept if isinstance(each, str)]
    except Exception as error:
        log.debug("The Airflow Variable %s cannot be read: %s", variable, type(error).__name__)
        return []


def _keep(variable: str, marks: list[str]) -> None:
    from airflow_provider_workflow.hooks.user_tokens import write_variable

    try:
        write_variable(variable, json.dumps(marks[-MOST_KEPT:]), DESCRIPTION)
    except Exception as error:
        log.debug("The Airflow Variable %s cannot be written: %s", variable, type(error).__name__)


def _variable_name(conn_id: str, inbox: str) -> str:
    name = f"{conn_id}__{inbox}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", name):
        name = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return PREFIX + name


def _mark(message_id: str) -> str:
    return hashlib.sha256(message_id.encode(errors="surrogatepass")).hexdigest()[:12]


def _is_due(conn_id: str, inbox: str) -> bool:
    every, now = quarantine_check_seconds(), clock.monotonic()
    key = conn_id, metrics.name_of(inbox)
    before = _looked.get(key)
    if every <= 0 or (before is not None and now - before < every):
        return False
    _looked[key] = now
    return True


def _is_new(message_id: str) -> bool:
    if message_id in _reported:
        return False
    if len(_reported) >= MOST_REMEMBERED:
        # The one that was reported first: whoever still lists it asks the Variable once more.
        del _reported[next(iter(_reported))]
    _reported[message_id] = None
    return True


def _say_that_it_failed(inbox: str, error: Exception) -> None:
    cause = plain(str(error)) or type(error).__name__
    log.info("Inbox %s: whether messages are in quarantine is not known: %s", plain(inbox), cause)
