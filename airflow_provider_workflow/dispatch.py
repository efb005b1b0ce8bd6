"""
Message, DAG run, acknowledgement, in this order: what sensor and operator share.

A message is acknowledged once its run exists, and its run has an id that follows from the message's.
So whatever is killed in between, the message comes again and finds its run.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_workflow import metrics
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.leases import (
    MARGIN_SECONDS,
    PRECIOUS_LEASE,
    HeldLease,
    for_people,
    lease_count,
)
from airflow_provider_workflow.leasing import acknowledge, lease_once, note_refusal, release
from airflow_provider_workflow.room import Limits, Room
from airflow_provider_workflow.routing import Routes, UnroutableError
from airflow_provider_workflow.run_faults import RunRefused, ServerFault, TargetError
from airflow_provider_workflow.runs import Runs, Start, run_id_of
from airflow_provider_workflow.tally import Tally

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

LONGEST_DRAIN_SECONDS = 600.0


class Drained(Enum):
    """Why leasing came to an end."""

    EMPTY = "the inbox has no more messages"
    NO_ROOM = "the target DAG has as many unfinished runs as it may"
    LIMIT = "as many messages as one task takes"
    OUT_OF_REACH = "the service is out of reach for now"


@dataclass
class Dispatcher:
    """
    Turns the messages of one inbox into DAG runs.

    :param hook: talks to the service.
    :param inbox: id or name.
    :param routes: which DAG a message is for.
    :param runs: where runs are started.
    :param limits: how much is leased at a time.
    :param tally: what was done so far; goes on counting.
    :param outlasts: told of each fault of leasing; whether it only means that there is nothing now.
    """

    hook: WorkflowHook
    inbox: str
    routes: Routes
    runs: Runs
    limits: Limits
    tally: Tally = field(default_factory=Tally)
    outlasts: Callable[[WorkflowError], bool] = lambda _: False
    _certain: bool = False
    _server_faults: int = 0
    _comes_again_at: float = math.inf

    @cached_property
    def inbox_id(self) -> str:
        return self.hook.get_inbox(self.inbox)["id"]

    @cached_property
    def _room(self) -> Room:
        return Room(self.limits, self.runs, self.routes.dag_ids)

    def check_targets(self) -> None:
        """
        Make sure that runs can be started, before anything is leased for them.

        :raises TargetError: they cannot.
        """
        checks = [self.runs.check_target(dag_id) for dag_id in self.routes.dag_ids]
        self._certain = all(checks)

    def next_lease(self) -> int:
        """
        How many messages the next lease may have, 0 where there is no room.

        One, as long as it is not certain that their runs can be started.
        """
        room = self._room.for_messages(self.tally.handled)
        return min(room, self.limits.lease_limit if self._certain else 1)

    def drain(self) -> Drained:
        """
        Lease and dispatch until the inbox is empty, a limit is reached, or there is no room.

        :raises InboxPausedError: the inbox is paused and has no more messages.
        :raises TargetError: no run can be started now; what was held is released.
        :raises WorkflowError: a fault that is not outlasted, or any of an acknowledgement.
        """
        ends_at = time.monotonic() + LONGEST_DRAIN_SECONDS
        while self.tally.handled < self.limits.most_messages and time.monotonic() < ends_at:
            if time.time() >= self._comes_again_at:
                # What was left to its lease would only lose another one to the same task.
                break
            count = self.next_lease()
            if count == 0:
                return Drained.NO_ROOM
            try:
                lease = lease_once(self.hook, self.inbox_id, count, self.limits.lease_seconds, self.inbox)
            except WorkflowError as error:
                if not self.outlasts(error):
                    raise
                return Drained.OUT_OF_REACH
            if lease is None:
                return Drained.EMPTY
            self.work_on(lease)
        return Drained.LIMIT

    def work_on(self, lease: HeldLease) -> None:
        """
        Start the runs of a lease and acknowledge what has its run.

        :raises TargetError: no run can be started now; what was not started is released, as after any fault.
        """
        due = deque(lease.most_precious_first())
        started: list[str] = []
        done = 0
        try:
            while due and self._room.comes_within(lease):
                if self._dispatch(due[0]):
                    started.append(due[0]["id"])
                    done += 1
                else:
                    self._comes_again_at = min(self._comes_again_at, lease.ends_at)
                if lease_count(due.popleft()) >= PRECIOUS_LEASE:
                    self._acknowledge(lease, started)
        except BaseException:
            # Not only of faults: an execution_timeout and an interruption end a task as well.
            release(self.hook, self.inbox_id, lease.lease_id, [message["id"] for message in due])
            raise
        finally:
            self._acknowledge(lease, started)
        log.info("Inbox %s: %d of %d leased messages have their runs", self.inbox, done, len(lease.messages))
        if due:
            self._leave(len(due))

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
            run_id = run_id_of(message_id)
            dag_id = self._earlier_target(message, run_id) or self.routes.target(content)
            if dag_id is None:
                log.debug("Inbox %s: message %s matches nothing; left to its lease", self.inbox, message_id)
                return False
            conf = {"inbox_id": self.inbox_id, "message": content}
            outcome = self.runs.start(dag_id, run_id, conf)
        except (RunRefused, UnroutableError) as error:
            self._refuse(message, error)
            return False
        self._server_faults = 0
        self._certain = True
        self._room.used()
        self.tally.count(outcome.value, message_id)
        metric = metrics.STARTED if outcome is Start.STARTED else metrics.EXISTING
        metrics.count(metric, 1, inbox=self.inbox, conn_id=self.hook.workflow_conn_id)
        return True

    def _earlier_target(self, message: types.LeasedMessage, run_id: str) -> str | None:
        """
        The DAG that an earlier delivery of a message was routed to, if its run exists.

        An expression may read what changes between deliveries, and must not choose a second DAG then.
        """
        if lease_count(message) < 2 or len(self.routes.dag_ids) < 2:
            return None
        return next((d for d in self.routes.dag_ids if self.runs.exists(d, run_id)), None)

    def _refuse(self, message: types.LeasedMessage, error: Exception) -> None:
        if isinstance(error, ServerFault):
            self._server_faults += 1
        elif isinstance(error, RunRefused):
            self._server_faults = 0
        if self._server_faults >= 2:
            raise TargetError(f"Airflow failed twice in a row to start a run: {error}. No message is lost.")
        self.tally.refuse(message["id"], str(error))
        note_refusal(self.hook, self.inbox, message, error)

    def _acknowledge(self, lease: HeldLease, ids: list[str]) -> None:
        """Acknowledge these messages, once."""
        if ids:
            chosen = ids.copy()
            ids.clear()
            acknowledge(self.hook, self.inbox_id, lease.lease_id, chosen)
