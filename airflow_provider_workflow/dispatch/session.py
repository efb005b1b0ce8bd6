"""Leasing, acknowledging and releasing in a task, and what they mean there when they fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_workflow import clock, metrics
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import NotFoundError
from airflow_provider_workflow.client.inboxes import FAILED, PAUSED, is_id
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.dispatch.lease import ASSUMED_LAST_LEASE, HeldLease, lease_count, slices
from airflow_provider_workflow.dispatch.results import Tally
from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

T = TypeVar("T")

MISSING_PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between the look-ups of an inbox that is not there: it may be created again under its name."""

_paused: WeakKeyDictionary[WorkflowHook, dict[str, str]] = WeakKeyDictionary()
"""Why inboxes are paused, as the log was told by a task."""


class InboxUnusableError(AirflowFailException):
    """
    The inbox failed to initialise; only deleting and creating it again helps (docs/service.md 2.2).

    :param inbox: id or name.
    :param reason: its ``paused_reason``, or None.
    """

    def __init__(self, inbox: str, reason: str | None) -> None:
        super().__init__(
            f"Inbox {inbox!r} failed to initialise ({plain(reason or 'no reason given')})."
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
            f"Inbox {inbox!r} is paused ({plain(reason or 'no reason given')}) and has no more messages."
            " Events are dropped until it is resumed."
        )


class MissingInbox:
    """
    Counts how often an inbox was looked for in vain: 30 s in all, as it may be created again under its name.

    :param inbox: id or name.
    """

    def __init__(self, inbox: str) -> None:
        self._inbox = inbox
        self._count = 0

    def pause(self, error: NotFoundError) -> float:
        """
        Seconds to wait before it is looked up by its name once more.

        :raises NotFoundError: it was given by its id, or has been away for as long as it is waited for.
        """
        if is_id(self._inbox) or self._count == len(MISSING_PAUSES):
            raise error
        if self._count == 0:
            log.warning(
                "Inbox %s does not exist (any more); looking it up by its name for %.0f s",
                self._inbox,
                sum(MISSING_PAUSES),
            )
        self._count += 1
        return MISSING_PAUSES[self._count - 1]

    def found(self) -> None:
        """It is there; should it be deleted once more, it is waited for as long again."""
        self._count = 0


def while_missing(inbox: str, ask: Callable[[], T]) -> T:
    """
    Ask something of an inbox; while it is not there, wait, for 30 s in all, and ask again. For tasks.

    :param inbox: id or name; one that is given by its id is not waited for.
    :param ask: asks once; it looks the inbox up by its name each time.
    :raises NotFoundError: the inbox is still not there.
    """
    missing = MissingInbox(inbox)
    while True:
        try:
            return ask()
        except NotFoundError as error:
            pause = missing.pause(error)
        clock.sleep(pause)


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

    asked_at = clock.now()
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


def acknowledge(
    hook: WorkflowHook, inbox: str, lease_id: str, ids: list[str], name: str | None = None
) -> int:
    """
    Acknowledge messages of a lease, up to 100 in each call.

    A lease that has expired is no error: its messages are redelivered, and their runs are found.

    :param inbox: id or name.
    :param name: how the inbox is named in the log; ``inbox`` by default.
    :return: how many were acknowledged.
    :raises WorkflowError: a call failed; the calls after it were not made.
    """
    count = 0
    expired = "a lease expired before its acknowledgement; its messages are redelivered"
    for given, done in _in_slices(hook.acknowledge_messages, inbox, lease_id, ids, name or inbox, expired):
        count += done
        if done < given:
            log.info(
                "Inbox %s: %d of %d messages were acknowledged; the others are redelivered",
                name or inbox,
                done,
                given,
            )
    return count


def release(hook: WorkflowHook, inbox: str, lease_id: str, ids: list[str], name: str | None = None) -> int:
    """
    Release messages of a lease, up to 100 in each call; a lease that has expired is no error.

    :param inbox: id or name.
    :param name: how the inbox is named in the log; ``inbox`` by default.
    :return: how many were released.
    :raises WorkflowError: a call failed; the calls after it were not made.
    """
    expired = "a lease expired before its release"
    return sum(
        done for _, done in _in_slices(hook.release_messages, inbox, lease_id, ids, name or inbox, expired)
    )


def _in_slices(
    call: Callable[[str, str, list[str]], types.Acknowledged | types.Released],
    inbox: str,
    lease_id: str,
    ids: list[str],
    name: str,
    expired: str,
) -> Iterator[tuple[int, int]]:
    """
    Make a call for each slice of the ids; none after the lease has expired.

    :param expired: what the log says where it has.
    :return: of each call, how many messages it was given, and how many of them are in its answer.
    """
    from airflow_provider_workflow.client.errors import LeaseExpiredError

    for some in slices(ids):
        try:
            answer = call(inbox, lease_id, some)
        except LeaseExpiredError:
            log.info("Inbox %s: %s", name, expired)
            return
        yield len(some), len(answer.get("results") or [])


def try_to_release(
    hook: WorkflowHook, inbox: str, lease_id: str, ids: list[str], name: str | None = None
) -> None:
    """The same, where a release that fails is no error: the lease expires instead."""
    from airflow_provider_workflow.client.errors import WorkflowError

    try:
        release(hook, inbox, lease_id, ids, name)
    except WorkflowError as error:
        log.warning(
            "Inbox %s: %d messages are redelivered when their lease expires (%s)",
            name or inbox,
            len(ids),
            error,
        )


def note_nameless(inbox: str, lease: HeldLease, conn_id: str, tally: Tally | None = None) -> None:
    """
    Count the messages of a lease that have no id, and say so: nothing can be done with them.

    :param tally: where they are counted as well; None outside a task.
    """
    for position in lease.nameless:
        if tally is not None:
            cause = "it has no id, so it can be neither started nor acknowledged"
            tally.refuse(f"number {position} of lease {lease.lease_id}", cause)
        metrics.count(metrics.REFUSED, 1, inbox=inbox, conn_id=conn_id)
        log.error(
            "Inbox %s: the message at position %d of lease %s has no id; it cannot be acknowledged, and the"
            " service quarantines it",
            plain(inbox),
            position,
            plain(lease.lease_id),
        )


def note_refusal(hook: WorkflowHook, inbox: str, message: types.LeasedMessage, cause: object) -> None:
    """Say and count that a message was rejected; louder where the service will not deliver it again."""
    metrics.count(metrics.REFUSED, 1, inbox=inbox, conn_id=hook.workflow_conn_id)
    if lease_count(message) >= ASSUMED_LAST_LEASE:
        log.error(
            "Inbox %s: message %s was rejected on its last lease; the service quarantines it: %s",
            inbox,
            plain(message["id"]),
            cause,
        )
    else:
        log.warning("Inbox %s: message %s was rejected: %s", inbox, plain(message["id"]), cause)
