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
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from airflow_provider_workflow import clock, metrics
from airflow_provider_workflow.client import inboxes, types
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.config import quarantine_check_seconds
from airflow_provider_workflow.dispatch.inbox_variable import MOST_KEPT, InboxVariable, mark

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
PREFIX = "workflow_quarantine__"
DESCRIPTION = "Quarantined messages of an inbox that were reported, as hashes of their ids. May be deleted."

Messages = list[Mapping[str, Any]]

_reported: dict[tuple[str, str, str], None] = {}
"""Connection, inbox and message id, as two inboxes may use the same message ids."""
_checked_at: dict[tuple[str, str], float] = {}
_reports: set[asyncio.Future[None]] = set()
_listeners: WeakKeyDictionary[WorkflowHook, Callable[[str, Messages], None]] = WeakKeyDictionary()
"""What the checks of a hook call with the id of the inbox and the messages that they reported."""


def listen(hook: WorkflowHook, on_report: Callable[[str, Messages], None] | None) -> None:
    """
    Let the checks of a hook call a function with the messages that they report.

    :param on_report: called with the id of the inbox and the listed messages, possibly in a thread. It must
        not raise. None removes it.
    """
    if on_report is None:
        _listeners.pop(hook, None)
    else:
        _listeners[hook] = on_report


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
        inbox_id, messages = hook.run_once(_listing(hook.settings, inbox))
    except Exception as error:
        _log_failure(inbox, error)
        return
    reported = _report_new(_unreported(messages, inbox, conn_id), inbox, conn_id)
    if hook in _listeners:
        _listeners[hook](inbox_id, reported)


async def check_in_loop(
    client: AsyncWorkflowClient, inbox: str, on_report: Callable[[Messages], Awaitable[None]] | None = None
) -> None:
    """
    The same check in a trigger.

    :param inbox: id or name.
    :param on_report: see ``report``.
    """
    messages = await _listed(client, inbox)
    report(messages, inbox=inbox, conn_id=client.settings.connection_id, on_report=on_report)


async def finds_unreported(client: AsyncWorkflowClient, inbox: str) -> bool:
    """
    Whether a check is due in this process, and finds quarantined messages that no process has reported.

    Reports nothing: for a trigger whose task reports them.

    :param inbox: id or name.
    """
    from asgiref.sync import sync_to_async

    where = client.settings.connection_id, metrics.name_of(inbox)
    messages = _quarantined(await _listed(client, inbox))
    found = [each for each in messages if (*where, each["id"]) not in _reported]
    if not found:
        return False
    variable = _variable(*where)
    known = await sync_to_async(_known)(variable)
    return any(mark(each["id"]) not in known for each in found)


def report(
    messages: Iterable[Mapping[str, Any]],
    *,
    inbox: str,
    conn_id: str,
    on_report: Callable[[Messages], Awaitable[None]] | None = None,
) -> list[str]:
    """
    Report the quarantined ones of listed messages: an ERROR line and a metric for each.

    In an event loop the report is made in a thread, a moment later.

    :param messages: all or some messages of a listing.
    :param inbox: id or name.
    :param conn_id: id of the Airflow connection.
    :param on_report: awaited with the messages that were reported, in an event loop only. It must not raise.
    :return: ids of quarantined messages that this process had not reported.
    """
    unreported = _unreported(messages, inbox, conn_id)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _report_new(unreported, inbox, conn_id)
    else:
        if unreported:
            alarm = asyncio.ensure_future(_report_in_thread(unreported, inbox, conn_id, on_report))
            _reports.add(alarm)
            alarm.add_done_callback(_reports.discard)
    return [each["id"] for each in unreported]


async def flush() -> None:
    """Wait until every alarm is raised that was begun in this event loop."""
    await asyncio.gather(*_reports)


def _listing(settings: Settings, inbox: str) -> Generator[Any, Any, tuple[str, list[types.Message]]]:
    inbox_id = yield from inboxes.id_of(settings, inbox)
    return inbox_id, (yield from inboxes.first_messages(inbox_id, MOST_PAGES))[0]


async def _listed(client: AsyncWorkflowClient, inbox: str) -> list[types.Message]:
    """The messages of an inbox; none if no check is due, or if it fails."""
    if not _is_due(client.settings.connection_id, inbox):
        return []
    try:
        async with clock.timeout(LONGEST_CHECK_SECONDS):
            return (await client.run(_listing(client.settings, inbox)))[1]
    except Exception as error:
        _log_failure(inbox, error)
        return []


def _quarantined(messages: Iterable[Mapping[str, Any]]) -> Messages:
    found = (each for each in messages if each.get("status") == QUARANTINED)
    return [each for each in found if isinstance(each.get("id"), str)]


def _unreported(messages: Iterable[Mapping[str, Any]], inbox: str, conn_id: str) -> Messages:
    """Quarantined messages that this process has not reported; it remembers them."""
    where = conn_id, metrics.name_of(inbox)
    return [each for each in _quarantined(messages) if _is_new((*where, each["id"]))]


async def _report_in_thread(
    unreported: Messages, inbox: str, conn_id: str, on_report: Callable[[Messages], Awaitable[None]] | None
) -> None:
    from asgiref.sync import sync_to_async

    reported = await sync_to_async(_report_new)(unreported, inbox, conn_id)
    if reported and on_report is not None:
        await on_report(reported)


def _report_new(messages: Messages, inbox: str, conn_id: str) -> Messages:
    """Report messages that no process has reported, and return them."""
    if not messages:
        return []
    name = metrics.name_of(inbox)
    variable = _variable(conn_id, name)
    known = _known(variable)
    unreported = [each for each in messages if mark(each["id"]) not in known]
    for each in unreported:
        log.error(
            "Inbox %s: message %s is in quarantine; it is not delivered again and starts no run",
            plain(name),
            plain(each["id"]),
        )
    if unreported:
        variable.write([*known, *(mark(each["id"]) for each in unreported)][-MOST_KEPT:])
    metrics.count(metrics.QUARANTINED, len(unreported), inbox=inbox, conn_id=conn_id)
    return unreported


def _variable(conn_id: str, name: str) -> InboxVariable:
    return InboxVariable.of(PREFIX, conn_id, name, DESCRIPTION)


def _known(variable: InboxVariable) -> list[str]:
    kept = variable.read()
    return [each for each in kept if isinstance(each, str)] if isinstance(kept, list) else []


def _is_due(conn_id: str, inbox: str) -> bool:
    every, now = quarantine_check_seconds(), clock.monotonic()
    key = conn_id, metrics.name_of(inbox)
    before = _checked_at.get(key)
    if every <= 0 or (before is not None and now - before < every):
        return False
    _checked_at[key] = now
    return True


def _is_new(key: tuple[str, str, str]) -> bool:
    if key in _reported:
        return False
    if len(_reported) >= MOST_REMEMBERED:
        # The oldest: if it is listed again, the Variable is read again.
        del _reported[next(iter(_reported))]
    _reported[key] = None
    return True


def _log_failure(inbox: str, error: Exception) -> None:
    cause = plain(str(error)) or type(error).__name__
    log.info("Inbox %s: cannot find out whether messages are in quarantine: %s", plain(inbox), cause)
