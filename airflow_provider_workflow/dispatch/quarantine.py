"""
Messages in quarantine, which start no run: they are reported once in a process, by a log line and a metric.

Only a listing of an inbox shows them. Nothing here raises: a report that fails stops no task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from airflow_provider_workflow import clock, observers
from airflow_provider_workflow.client.inboxes import first_messages
from airflow_provider_workflow.config import quarantine_check_seconds
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.text import escaped

if TYPE_CHECKING:
    from airflow_provider_workflow.client.async_client import AsyncWorkflowClient
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

MAX_CHECKED_PAGES = 5
"""Pages that one check for quarantined messages lists at most."""
MAX_LISTING_SECONDS = 30.0
"""Timeout of a check in a trigger."""

_reported: LRUCache[tuple[str, str, str], None] = LRUCache(100_000)
"""Connection, inbox and message id, as two inboxes may use the same message ids."""
_checked_at: dict[tuple[str, str], float] = {}


def check_quarantine(hook: WorkflowHook, inbox_id: str) -> None:
    """
    List the messages of an inbox, if a check is due in this process, and report the quarantined ones.

    For tasks. One request for each page of the listing, at most 5, without retries.
    """
    conn_id = hook.workflow_conn_id
    try:
        if _is_due(conn_id, inbox_id):
            messages, _ = hook.run_once(first_messages, inbox_id, MAX_CHECKED_PAGES)
            report_quarantined(messages, inbox=inbox_id, conn_id=conn_id)
    except Exception as error:
        _log_failure(inbox_id, conn_id, error)


async def check_quarantine_in_loop(client: AsyncWorkflowClient, inbox_id: str) -> None:
    """The same as ``check_quarantine``, in a trigger."""
    conn_id = client.settings.connection_id
    try:
        if _is_due(conn_id, inbox_id):
            async with clock.timeout(MAX_LISTING_SECONDS):
                messages, _ = await first_messages(client.send, inbox_id, MAX_CHECKED_PAGES)
            for start in range(0, len(messages), 100):  # other triggers run between
                report_quarantined(messages[start : start + 100], inbox=inbox_id, conn_id=conn_id)
                await clock.async_sleep(0)
    except Exception as error:
        _log_failure(inbox_id, conn_id, error)


def report_quarantined(messages: Iterable[Mapping[str, Any]], *, inbox: str, conn_id: str) -> None:
    """
    Report the quarantined ones of listed messages: an ERROR line and a metric for each, once in a process.

    :param messages: all or some messages of a listing.
    :param inbox: id or name.
    :param conn_id: id of the Airflow connection.
    """
    name = name_of(inbox, conn_id)
    ids = [message.get("id") for message in messages if message.get("status") == "quarantined"]
    new = [id_ for id_ in ids if isinstance(id_, str) and (conn_id, name, id_) not in _reported]
    for message_id in new:
        _reported[conn_id, name, message_id] = None
        log.error(
            "Inbox %s: message %s is in quarantine; it is not delivered again and starts no run",
            name,
            escaped(message_id),
        )
    observers.notify("quarantined", inbox=inbox, conn_id=conn_id, count=len(new))


def _is_due(conn_id: str, inbox_id: str) -> bool:
    interval, now = quarantine_check_seconds(), clock.monotonic()
    key = conn_id, inbox_id
    before = _checked_at.get(key)
    if interval <= 0 or (before is not None and now - before < interval):
        return False
    _checked_at[key] = now
    return True


def _log_failure(inbox_id: str, conn_id: str, error: Exception) -> None:
    name, cause = name_of(inbox_id, conn_id), escaped(str(error)) or type(error).__name__
    log.info("Inbox %s: cannot find out whether messages are in quarantine: %s", name, cause)
