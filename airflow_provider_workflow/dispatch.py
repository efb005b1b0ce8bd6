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

from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.conveyor import Conveyor
from airflow_provider_workflow.leases import MARGIN_SECONDS, PRECIOUS_LEASE, HeldLease, lease_count
from airflow_provider_workflow.options import Limits
from airflow_provider_workflow.room import Room
from airflow_provider_workflow.routing import Routes
from airflow_provider_workflow.runs import Runs
from airflow_provider_workflow.starting import Starter
from airflow_provider_workflow.tally import Tally

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

LONGEST_DRAIN_SECONDS = 600.0
AHEAD_SECONDS = 0.5
"""How long before the end of its work on a lease a dispatcher asks for the next. That one ages meanwhile, so
it is a small part of the shortest lease, and as much as most services take to answer."""


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
    _comes_again_at: float = math.inf
    _ends_at: float = math.inf

    @cached_property
    def inbox_id(self) -> str:
        return self.hook.get_inbox(self.inbox)["id"]

    @cached_property
    def _room(self) -> Room:
        return Room(self.limits, self.runs, self.routes.dag_ids)

    @cached_property
    def _starter(self) -> Starter:
        return Starter(self.hook, self.inbox, self.inbox_id, self.routes, self.runs, self.tally)

    def check_targets(self) -> None:
        """
        Make sure that runs can be started, before anything is leased for them.

        :raises TargetError: they cannot.
        """
        checks = [self.runs.check_target(dag_id) for dag_id in self.routes.dag_ids]
        self._certain = all(checks)

    def next_lease(self, held: int = 0) -> int:
        """
        How many messages the next lease may have, 0 where there is no room.

        One, as long as it is not certain that their runs can be started.

        :param held: messages that are leased and not worked on yet.
        """
        room = self._room.for_messages(self.tally.handled + held)
        return min(room, self.limits.lease_limit if self._certain else 1)

    def drain(self) -> Drained:
        """
        Lease and dispatch until the inbox is empty, a limit is reached, or there is no room.

        :raises InboxPausedError: the inbox is paused and has no more messages.
        :raises TargetError: no run can be started now; what was held is released.
        :raises WorkflowError: a fault that is not outlasted, or any of an acknowledgement.
        """
        self._ends_at = time.monotonic() + LONGEST_DRAIN_SECONDS
        with self._conveyor(self.runs.alongside) as conveyor:
            while conveyor.has_next or self._leases_on():
                count = 0 if conveyor.has_next else self.next_lease()
                if count == 0 and not conveyor.has_next:
                    return Drained.NO_ROOM
                try:
                    lease = conveyor.lease(count)
                except WorkflowError as error:
                    if not self.outlasts(error):
                        raise
                    return Drained.OUT_OF_REACH
                if lease is None:
                    return Drained.EMPTY
                self._work_on(lease, conveyor)
        return Drained.LIMIT

    def work_on(self, lease: HeldLease) -> None:
        """
        Start the runs of one lease and acknowledge what has its run.

        :raises TargetError: no run can be started now; what was not started is released, as after any fault.
        :raises WorkflowError: an acknowledgement failed.
        """
        with self._conveyor(alongside=False) as conveyor:
            self._work_on(lease, conveyor)

    def _conveyor(self, alongside: bool) -> Conveyor:
        seconds = self.limits.lease_seconds
        return Conveyor(self.hook, lambda: self.inbox_id, self.inbox, seconds, alongside)

    def _leases_on(self) -> bool:
        """Whether a task that has done this much leases more."""
        # What was left to its lease would only lose another one to the same task.
        in_time = time.monotonic() < self._ends_at and time.time() < self._comes_again_at
        return in_time and self.tally.handled < self.limits.most_messages

    def _work_on(self, lease: HeldLease, conveyor: Conveyor) -> None:
        due = deque(lease.most_precious_first())
        started: list[str] = []
        done, began_at = 0, time.monotonic()
        try:
            while due and self._room.comes_within(lease):
                if self._start(due[0]):
                    started.append(due[0]["id"])
                    done += 1
                else:
                    self._comes_again_at = min(self._comes_again_at, lease.ends_at)
                if lease_count(due.popleft()) >= PRECIOUS_LEASE:
                    _acknowledge(conveyor, lease, started)
                self._look_ahead(lease, len(due), time.monotonic() - began_at, conveyor)
        except BaseException:
            # Not only of faults: an execution_timeout and an interruption end a task as well.
            conveyor.release(lease, [message["id"] for message in due])
            raise
        finally:
            _acknowledge(conveyor, lease, started)
        log.info("Inbox %s: %d of %d leased messages have their runs", self.inbox, done, len(lease.messages))
        if due:
            self._leave(len(due))

    def _start(self, message: types.LeasedMessage) -> bool:
        if not self._starter.start(message):
            return False
        self._certain = True
        self._room.used()
        return True

    def _look_ahead(self, lease: HeldLease, left: int, elapsed: float, conveyor: Conveyor) -> None:
        """
        Ask for the next lease, where it will be worked on soon.

        :param left: messages of this lease that are not worked on yet.
        :param elapsed: seconds that the others of it took.
        """
        whole = len(lease.messages)
        more_may_be_there = whole >= self.limits.lease_limit and self.limits.max_unfinished_runs is None
        if conveyor.has_next or not (left and more_may_be_there and self._certain and self._leases_on()):
            return
        nearly_done = left * elapsed / (whole - left) <= AHEAD_SECONDS
        if nearly_done and (count := self.next_lease(held=left)) > 0:
            conveyor.lease_ahead(count)

    def _leave(self, count: int) -> None:
        log.warning(
            "Inbox %s: %d messages of a lease were not started in time (no run is started in its last %g s);"
            " they come again",
            self.inbox,
            count,
            MARGIN_SECONDS,
        )


def _acknowledge(conveyor: Conveyor, lease: HeldLease, ids: list[str]) -> None:
    """Acknowledge these messages, once."""
    if ids:
        chosen = ids.copy()
        ids.clear()
        conveyor.acknowledge(lease, chosen)
