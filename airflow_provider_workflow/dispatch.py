"""
Message, DAG run, acknowledgement, in this order: what sensor and operator share.

A message is acknowledged once its run exists, and its run has an id that follows from the message's.
So whatever is killed in between, the message comes again and finds its run.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_workflow import runs
from airflow_provider_workflow.client import types
from airflow_provider_workflow.leases import (
    ASSUMED_LAST_LEASE,
    MARGIN_SECONDS,
    PRECIOUS_LEASE,
    HeldLease,
    for_people,
    lease_count,
)
from airflow_provider_workflow.routing import Routes, UnroutableError
from airflow_provider_workflow.tally import Tally

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

MOST_MESSAGES = 10_000
LONGEST_DRAIN_SECONDS = 600.0
ROOM_CHECK_SECONDS = 2.0


class Drained(Enum):
    """Why leasing came to an end."""

    EMPTY = "the inbox has no more messages"
    NO_ROOM = "the target DAG has as many unfinished runs as it may"
    LIMIT = "as many messages as one task takes"


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


@dataclass(frozen=True)
class Limits:
    """
    How much is leased at a time.

    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 1 to 3600 s.
    :param max_messages: messages in all; None for no limit of its own.
    :param max_unfinished_runs: runs that each target may have queued and running; None for any number.
    """

    lease_limit: int = 100
    lease_seconds: int = 300
    max_messages: int | None = None
    max_unfinished_runs: int | None = None


@dataclass
class Dispatcher:
    """
    Turns the messages of one inbox into DAG runs.

    :param hook: talks to the service.
    :param inbox: id or name.
    :param routes: which DAG a message is for.
    :param ti: the running task instance.
    :param limits: how much is leased at a time.
    :param tally: what was done so far; goes on counting.
    """

    hook: WorkflowHook
    inbox: str
    routes: Routes
    ti: Any
    limits: Limits
    tally: Tally = field(default_factory=Tally)
    _certain: bool = False
    _budget: int = 0
    _server_faults: int = 0

    @cached_property
    def inbox_id(self) -> str:
        return self.hook.get_inbox(self.inbox)["id"]

    def check_targets(self) -> None:
        """
        Make sure that runs can be started, before anything is leased for them.

        :raises TargetError: they cannot.
        """
        self._certain = all(runs.check_target(self.ti, dag_id) for dag_id in self.routes.dag_ids)

    def room(self) -> int:
        """How many messages may be leased now."""
        room = MOST_MESSAGES - self.tally.handled
        if self.limits.max_messages is not None:
            room = min(room, self.limits.max_messages - self.tally.handled)
        if room > 0 and self.limits.max_unfinished_runs is not None:
            self._budget = self._ask_for_room()
            room = min(room, self._budget)
        return max(0, room)

    def ready_for(self) -> int:
        """
        How many messages a trigger may lease for this dispatch, 0 where there is no room.

        One, as long as it is not certain that their runs can be started.

        :raises TargetError: they cannot.
        """
        self.check_targets()
        return min(self.room(), MOST_MESSAGES if self._certain else 1)

    def finished(self) -> bool:
        """Whether one task takes no more messages than it had."""
        most = min(MOST_MESSAGES, self.limits.max_messages or MOST_MESSAGES)
        return self.tally.handled >= most

    def drain(self) -> Drained:
        """
        Lease and dispatch until the inbox is empty, a limit is reached, or there is no room.

        :raises InboxPausedError: the inbox is paused and has no more messages.
        :raises TargetError: no run can be started now; what was held is released.
        """
        ends_at = time.monotonic() + LONGEST_DRAIN_SECONDS
        while not self.finished() and time.monotonic() < ends_at:
            room = self.room()
            if room == 0:
                return Drained.NO_ROOM
            lease = self.lease(min(self.limits.lease_limit, room if self._certain else 1))
            if lease is None:
                return Drained.EMPTY
            self.work_on(lease)
        return Drained.LIMIT

    def lease(self, count: int) -> HeldLease | None:
        """Lease up to this many messages."""
        return lease_once(self.hook, self.inbox_id, count, self.limits.lease_seconds)

    def work_on(self, lease: HeldLease) -> None:
        """
        Start the runs of a lease and acknowledge what has its run.

        :raises TargetError: no run can be started now; what was not started is released.
        """
        started: list[str] = []
        messages = lease.most_precious_first()
        try:
            for position, message in enumerate(messages):
                if not self._may_start(lease):
                    self._leave(len(messages) - position)
                    break
                if not self._dispatch(message):
                    continue
                if lease_count(message) >= PRECIOUS_LEASE:
                    self._acknowledge(lease, [message["id"]])
                else:
                    started.append(message["id"])
        except runs.TargetError:
            done = self.tally.seen
            self.release(lease, [m["id"] for m in messages if m["id"] not in done])
            raise
        finally:
            self._acknowledge(lease, started)

    def release(self, lease: HeldLease, ids: list[str]) -> None:
        """Give messages back at once; where that fails their lease runs out instead."""
        from airflow_provider_workflow.client.errors import WorkflowError

        if not ids:
            return
        try:
            self.hook.release_messages(self.inbox_id, lease.lease_id, ids)
        except WorkflowError as error:
            log.warning(
                "Inbox %s: %d messages come again when their lease ends (%s)", self.inbox, len(ids), error
            )

    def _may_start(self, lease: HeldLease) -> bool:
        """Wait for room as long as the lease allows; without a limit on runs there always is."""
        while lease.seconds_left() > 0:
            if self.limits.max_unfinished_runs is None or self._budget > 0:
                return True
            self._budget = self._ask_for_room()
            if self._budget <= 0:
                time.sleep(ROOM_CHECK_SECONDS)
        return False

    def _leave(self, count: int) -> None:
        log.warning(
            "Inbox %s: %d messages of a lease were not started in time (no run is started in its last %g s);"
            " they come again",
            self.inbox,
            count,
            MARGIN_SECONDS,
        )

    def _dispatch(self, message: types.LeasedMessage) -> bool:
        """Start the run of one message; whether it may be acknowledged."""
        message_id = message["id"]
        if (count := lease_count(message)) >= PRECIOUS_LEASE:
            log.warning("Inbox %s: message %s is on its lease number %d", self.inbox, message_id, count)
        content = for_people(message)
        try:
            dag_id = self.routes.target(content)
            if dag_id is None:
                # Whoever it is for may share the inbox: it is theirs once its lease has run out.
                log.debug("Inbox %s: message %s matches nothing; left to its lease", self.inbox, message_id)
                return False
            conf = {"inbox_id": self.inbox_id, "message": content}
            outcome = runs.start_run(dag_id, runs.run_id_of(message_id), conf)
        except (runs.RunRefused, UnroutableError) as error:
            self._refuse(message, error)
            return False
        self._server_faults = 0
        self._certain = True
        self._budget -= 1
        self.tally.count(outcome.value, message_id)
        return True

    def _refuse(self, message: types.LeasedMessage, error: Exception) -> None:
        self._server_faults = self._server_faults + 1 if isinstance(error, runs.ServerFault) else 0
        if self._server_faults >= 2:
            raise runs.TargetError(
                f"Airflow failed twice in a row to start a run: {error}. No message is lost."
            )
        message_id = message["id"]
        self.tally.refuse(message_id, str(error))
        if lease_count(message) >= ASSUMED_LAST_LEASE:
            log.error(
                "Inbox %s: message %s was refused on its last lease; the service quarantines it: %s",
                self.inbox,
                message_id,
                error,
            )
        else:
            log.warning("Inbox %s: message %s was refused: %s", self.inbox, message_id, error)

    def _acknowledge(self, lease: HeldLease, ids: list[str]) -> None:
        if ids:
            acknowledge(self.hook, self.inbox_id, lease.lease_id, ids)

    def _ask_for_room(self) -> int:
        most = self.limits.max_unfinished_runs or 0
        return min(most - runs.unfinished_runs(self.ti, dag_id) for dag_id in self.routes.dag_ids)


def lease_once(hook: WorkflowHook, inbox: str, count: int, seconds: int) -> HeldLease | None:
    """
    Lease messages, if there are any.

    :param count: messages at most, 1 to 100.
    :param seconds: length of the lease, 1 to 3600 s.
    :raises InboxUnusableError: the inbox failed to initialise.
    :raises InboxPausedError: the inbox is paused and has no more messages.
    """
    asked_at = time.time()
    answer = hook.lease_messages(inbox, count, seconds)
    attributes = answer["inbox_attributes"]
    if attributes.get("status") == "initialization_failure":
        raise InboxUnusableError(inbox, attributes.get("paused_reason"))
    return HeldLease.of(answer, asked_at, seconds)


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
