"""
Finds messages that the service has quarantined, and reports each once.

A quarantined message starts no run, and only a listing shows it. The service quarantines a message without
telling anyone, so tasks and triggers list their inbox from time to time. An Airflow Variable stores which
messages were reported, for all processes; it is read and written only when there are quarantined messages.
Without the Variable each process reports a message once.

Nothing here raises: a failing report must not stop a task or a trigger.
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
"""Pages that one check lists at most."""
LONGEST_CHECK_SECONDS = 30.0
"""Timeout of a check in a trigger."""
MOST_REMEMBERED = 100_000
"""Ids that a process keeps at most."""
MOST_KEPT = 2_000
"""Ids that the Variable keeps at most: hashes of 12 characters, which fit a text column of every database."""
PREFIX = "workflow_quarantine__"
DESCRIPTION = "Quarantined messages of an inbox that were reported, as hashes of their ids. May be deleted."

_reported: dict[str, None] = {}
_checked_at: dict[tuple[str, str], float] = {}
_reports: set[asyncio.Future[None]] = set()


def check(hook: WorkflowHook, inbox: str) -> None:
    """
    List the messages of an inbox, if a check is due in this process, and report the quarantined ones.

    For tasks. One request for each page of the listing, at most 5, without retries.

    :param inbox: id or name.
    """
    conn_id = hook.workflow_conn_id
    if not _is_due(conn_id, inbox):
        return
    try:
        messages = hook.run_once(_listing(hook.settings, inbox))
    except Exception as error:
        _log_failure(inbox, error)
    else:
        report(messages, inbox=inbox, conn_id=conn_id)


async def check_in_loop(client: AsyncWorkflowClient, inbox: str) -> None:
    """
    The same check in a trigger.

    :param inbox: id or name.
    """
    conn_id = client.settings.connection_id
    if not _is_due(conn_id, inbox):
        return
    try:
        async with clock.timeout(LONGEST_CHECK_SECONDS):
            messages = await client.run(_listing(client.settings, inbox))
    except Exception as error:
        _log_failure(inbox, error)
    else:
        report(messages, inbox=inbox, conn_id=conn_id)


def report(messages: Iterable[Mapping[str, Any]], *, inbox: str, conn_id: str) -> list[str]:
    """
    Report the quarantined ones of listed messages: an ERROR line and a metric for each.

    In an event loop the report is made in a thread, a moment later.

    :param messages: all or some messages of a listing.
    :param inbox: id or name.
    :param conn_id: id of the Airflow connection.
    :return: ids of quarantined messages that this process had not reported.
    """
    found = (each.get("id") for each in messages if each.get("status") == QUARANTINED)
    news = [each for each in found if isinstance(each, str) and _is_new(each)]
    if not news:
        return []
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        metrics.count(metrics.QUARANTINED, _report_new(news, inbox, conn_id), inbox=inbox, conn_id=conn_id)
        return news
    alarm = asyncio.ensure_future(_report_in_thread(news, inbox, conn_id))
    _reports.add(alarm)
    alarm.add_done_callback(_reports.discard)
    return news


async def flush() -> None:
    """Wait until every alarm is raised that was begun in this event loop."""
    await asyncio.gather(*_reports)


def _listing(settings: Settings, inbox: str) -> Generator[Any, Any, list[types.Message]]:
    inbox_id = yield from inboxes.id_of(settings, inbox)
    return (yield from inboxes.all_messages(inbox_id, MOST_PAGES))


async def _report_in_thread(ids: list[str], inbox: str, conn_id: str) -> None:
    from asgiref.sync import sync_to_async

    number = await sync_to_async(_report_new)(ids, inbox, conn_id)
    metrics.count(metrics.QUARANTINED, number, inbox=inbox, conn_id=conn_id)


def _report_new(ids: list[str], inbox: str, conn_id: str) -> int:
    """Report messages that no process has reported; returns their number."""
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
    before = _checked_at.get(key)
    if every <= 0 or (before is not None and now - before < every):
        return False
    _checked_at[key] = now
    return True


def _is_new(message_id: str) -> bool:
    if message_id in _reported:
        return False
    if len(_reported) >= MOST_REMEMBERED:
        # The oldest: if it is listed again, the Variable is read again.
        del _reported[next(iter(_reported))]
    _reported[message_id] = None
    return True


def _log_failure(inbox: str, error: Exception) -> None:
    cause = plain(str(error)) or type(error).__name__
    log.info("Inbox %s: cannot find out whether messages are in quarantine: %s", plain(inbox), cause)
