"""Pausing, resuming and deleting an inbox in a task, whose retry may find it done already."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import ConflictError
from airflow_provider_workflow.client.inboxes import ACTIVE, DELETING, FAILED, INITIALIZING, PAUSED
from airflow_provider_workflow.dispatch.session import InboxUnusableError
from airflow_provider_workflow.operators.base import ended, storable
from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)


class InboxSummary(TypedDict):
    """
    What is returned of an inbox: not its subscription, which may be large, and not its
    ``notification_url``, which is a secret where it leads to the receiver.
    """

    id: str
    name: str | None
    status: str  #: initializing, active, paused, deleting, initialization_failure
    paused_reason: str | None


class InboxDeletion(TypedDict):
    """The inbox as it was given, and whether this call deleted it (else it was gone already)."""

    inbox: str
    deleted: bool


def inbox_summary(inbox: types.Inbox) -> InboxSummary:
    """The fields that fit an XCom, whatever the inbox is subscribed to."""
    return {
        "id": inbox["id"],
        "name": storable(inbox.get("name")),
        "status": inbox["status"],
        "paused_reason": storable(inbox.get("paused_reason")),
    }


def pause(hook: WorkflowHook, inbox: str) -> InboxSummary:
    """Pause an inbox, unless it is paused."""
    return _changed(hook, inbox, hook.pause_inbox, (PAUSED,))


def resume(hook: WorkflowHook, inbox: str) -> InboxSummary:
    """Resume an inbox, unless it is active or about to be."""
    return _changed(hook, inbox, hook.resume_inbox, (ACTIVE, INITIALIZING))


def delete(hook: WorkflowHook, inbox: str, missing_ok: bool) -> InboxDeletion:
    """Delete an inbox, unless it is being deleted; see ``ended``."""

    def end() -> None:
        try:
            hook.delete_inbox(inbox)
        except ConflictError:
            if hook.get_inbox(inbox)["status"] != DELETING:
                raise
            log.info("Inbox %s is being deleted already", inbox)

    return {"inbox": inbox, "deleted": ended(f"Inbox {inbox}", "deleted", end, missing_ok)}


def _changed(
    hook: WorkflowHook, name: str, change: Callable[[str], types.Inbox], already: tuple[str, ...]
) -> InboxSummary:
    """
    :param already: states in which the service answers with 409, and that are what was asked for.
    """
    try:
        inbox = change(name)
    except ConflictError:
        inbox = hook.get_inbox(name)
        if inbox["status"] == FAILED:
            raise InboxUnusableError(name, inbox.get("paused_reason")) from None
        if inbox["status"] not in already:
            raise
        log.info("Inbox %s is %s already; nothing to do", name, plain(inbox["status"]))
    else:
        log.info("Inbox %s is %s now", name, plain(inbox["status"]))
    return inbox_summary(inbox)
