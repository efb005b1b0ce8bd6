"""Leasing, acknowledging and releasing in a task, and what they mean there when they fail."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_workflow import metrics, quarantine
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.inbox_states import FAILED, PAUSED
from airflow_provider_workflow.leases import ASSUMED_LAST_LEASE, HeldLease, lease_count
from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

_paused: WeakKeyDictionary[WorkflowHook, dict[str, str]] = WeakKeyDictionary()
"""Why inboxes are paused, as the log was told by a task."""


class InboxUnusableError(AirflowFailException):
    """
    The inbox failed to initialise; only deleting and creating it again helps (specification 7.3).

    :param inbox: id or name.
    :param reason: its ``paused_reason``, or None.
    """

    def __init__(self, inbox: str, reason: str | None) -> None:
        super().__init__(
            f"Inbox {inbox!r} failed to initialise ({reason or 'no reason given'})."
            " Delete it and create it again."
        )


class InboxNotActiveError(AirflowException):
    """
    The inbox is paused and holds no more messages; new events are dropped until it is resumed.

    :param inbox: id or name.
    :param reason: its ``paused_reason``, or None.
    """

    def __init__(self, inbox: str, reason: str | None) -> None:
        super().__init__(
            f"Inbox {inbox!r} is paused ({reason or 'no reason given'}) and has no more messages."
            " Events are dropped until it is resumed."
        )


def lease_once(
    hook: WorkflowHook,
    inbox_id: str,
    count: int,
    seconds: int,
    inbox: str | None = None,
    *,
    patient: bool = True,
) -> HeldLease | None:
    """
    Lease messages, if there are any; where there are none, look for those in quarantine now and then.

    :param count: messages at most, 1 to 100.
    :param seconds: length of the lease, 1 to 3600 s.
    :param inbox: how the inbox is named in an error; its id by default.
    :param patient: whether to wait where the service wants no calls for now; without it that is an error.
    :raises InboxUnusableError: the inbox failed to initialise.
    :raises InboxPausedError: the inbox is paused and has no more messages.
    """
    from airflow_provider_workflow.client.errors import InboxPausedError

    asked_at = time.time()
    try:
        answer = hook.lease_messages(inbox_id, count, seconds, patient=patient)
    except InboxPausedError:
        quarantine.look(hook, inbox or inbox_id)
        raise
    attributes = answer.get("inbox_attributes") or {}
    if attributes.get("status") != PAUSED:
        _note_resumed(hook, inbox or inbox_id)
    if attributes.get("status") == FAILED:
        raise InboxUnusableError(inbox or inbox_id, attributes.get("paused_reason"))
    lease = HeldLease.of(answer, asked_at, seconds, hook.settings.timeout)
    if lease is None:
        quarantine.look(hook, inbox or inbox_id)
    return lease


def note_paused(hook: WorkflowHook, inbox: str, reason: str) -> None:
    """Say that an inbox is paused: once, however often a task looks, until it is paused no more."""
    said = _paused.setdefault(hook, {})
    if said.get(inbox) != reason:
        log.warning("Inbox %s is paused: %s", inbox, plain(reason))
    said[inbox] = reason


def _note_resumed(hook: WorkflowHook, inbox: str) -> None:
    if hook in _paused and _paused[hook].pop(inbox, None) is not None:
        log.info("Inbox %s is paused no more", inbox)


def acknowledge(hook: WorkflowHook, inbox: str, lease_id: str, ids: list[str] | None) -> int:
    """
    Acknowledge messages of a lease.

    A lease that ran out is no fault: its messages come again, and their work is found done.

    :return: how many were acknowledged.
    """
    from airflow_provider_workflow.client.errors import LeaseExpiredError

    try:
        answer = hook.acknowledge_messages(inbox, lease_id, ids)
    except LeaseExpiredError:
        log.info("Inbox %s: a lease ended before its acknowledgement; its messages come again", inbox)
        return 0
    count = len(answer.get("results") or [])
    if ids is not None and count < len(ids):
        log.info(
            "Inbox %s: %d of %d messages were acknowledged; the others come again", inbox, count, len(ids)
        )
    return count


def release(hook: WorkflowHook, inbox: str, lease_id: str, ids: list[str]) -> None:
    """Give messages back at once; where that fails their lease runs out instead."""
    from airflow_provider_workflow.client.errors import WorkflowError

    if not ids:
        return
    try:
        hook.release_messages(inbox, lease_id, ids)
    except WorkflowError as error:
        log.warning("Inbox %s: %d messages come again when their lease ends (%s)", inbox, len(ids), error)


def note_refusal(hook: WorkflowHook, inbox: str, message: types.LeasedMessage, cause: object) -> None:
    """Say and count that a message was refused; louder where the service will not hand it out again."""
    metrics.count(metrics.REFUSED, 1, inbox=inbox, conn_id=hook.workflow_conn_id)
    if lease_count(message) >= ASSUMED_LAST_LEASE:
        log.error(
            "Inbox %s: message %s was refused on its last lease; the service quarantines it: %s",
            inbox,
            message["id"],
            cause,
        )
    else:
        log.warning("Inbox %s: message %s was refused: %s", inbox, message["id"], cause)
