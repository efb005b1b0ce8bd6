"""
Lease, start, acknowledge: the loop that sensor, operator and command line share.

A message is acknowledged only after its run exists, and the id of that run follows from the ids of message
and inbox. A process that is killed in between does no harm: the message is redelivered, and its run is found.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock, metrics
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import (
    HIGH_DELIVERY_COUNT,
    MARGIN_SECONDS,
    HeldLease,
    delivery_count,
    without_lease,
)
from airflow_provider_workflow.dispatch.payloads import log_replaced, storable
from airflow_provider_workflow.dispatch.rejections import (
    RejectionsInARow,
    RunRejected,
    ServerFault,
    TargetError,
    UnencodableConf,
)
from airflow_provider_workflow.dispatch.results import Counts, log_nameless, log_rejection
from airflow_provider_workflow.dispatch.routing import Routes, UnroutableError
from airflow_provider_workflow.dispatch.runs import Runs, Start, former_run_id_of, run_id_of
from airflow_provider_workflow.dispatch.session import InboxSession, while_missing
from airflow_provider_workflow.dispatch.targets import Capacity, Limits, TargetCheck

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

LONGEST_DRAIN_SECONDS = 600.0
LEASE_AHEAD_SECONDS = 0.5
"""Time before the last run of a lease at which the next lease is requested. It ages meanwhile, so this
is a small part of the shortest lease, and about the time in which most services answer."""
MOST_UNACKNOWLEDGED = 2
"""Leases with a failed acknowledgement; with so many, nothing more is leased."""
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0
"""Pause between two attempts to send failed acknowledgements; it doubles from the first to the longest."""
LONGEST_NOTE = 1000
"""Characters. PostgreSQL rejects the run of a longer one; escaped, a character of an id takes up to ten."""


class TaskKilled(BaseException):
    """
    The task was killed while it held a lease. Raised by ``on_kill``, so that the lease is released.

    :param inbox: id or name.
    """

    def __init__(self, inbox: str) -> None:
        super().__init__(f"The task was ended while it worked on a lease of the inbox {inbox}")


class Drained(Enum):
    """Why a drain ended."""

    EMPTY = "the inbox has no more messages"
    NO_CAPACITY = "the target DAG has as many unfinished runs as it may"
    LIMIT = "as many messages as one task takes"
    OUT_OF_REACH = "the service is unreachable for now"


@dataclass
class Dispatcher:
    """
    Turns the messages of one inbox into DAG runs.

    :param hook: sends the calls.
    :param inbox: id or name.
    :param routes: chooses the DAG of a message.
    :param targets: checks the target DAGs before anything is leased.
    :param limits: how much is leased at a time.
    :param counts: the outcomes of messages, from those that are counted already.
    :param is_transient_error: whether an error of a lease request is transient: then the drain ends without
        an error.
    :param origin: the run of this task, for the notes of the runs that it starts; empty outside a task.
    :param working: whether runs of leased messages are being started at this moment.
    """

    hook: WorkflowHook
    inbox: str
    routes: Routes
    targets: TargetCheck
    limits: Limits
    counts: Counts = field(default_factory=Counts)
    is_transient_error: Callable[[WorkflowError], bool] = lambda _: False
    origin: str = ""
    working: bool = False
    _leased_at: str = ""
    _in_a_row: RejectionsInARow = field(default_factory=RejectionsInARow)
    _redelivered_at: float = math.inf
    _ends_at: float = math.inf
    _pause: float = FIRST_PAUSE_SECONDS

    @cached_property
    def inbox_id(self) -> str:
        """The id of the inbox when the drain began; it may be deleted and created again meanwhile."""
        return while_missing(self.inbox, lambda: self.hook.get_inbox(self.inbox))["id"]

    @property
    def runs(self) -> Runs:
        return self.targets.runs

    @cached_property
    def _capacity(self) -> Capacity:
        return Capacity(self.limits, self.runs, self.routes.dag_ids)

    def check_targets(self) -> None:
        """
        Check the target DAGs, before anything is leased.

        :raises TargetError: no run of one of them can be started.
        """
        self.targets.check()

    def next_lease(self, held: int = 0) -> tuple[int, int]:
        """
        The number of messages of the next lease, 0 without capacity, and its length in seconds.

        :param held: leased messages whose runs are not started yet.
        """
        room = self._capacity.left(self.counts.handled + held)
        return self.targets.next_lease(min(room, self.limits.lease_limit), self.limits.lease_seconds)

    def drain(self, lease: HeldLease | None = None) -> Drained:
        """
        Lease messages and start their runs until the inbox is empty, a limit is reached, or there is no
        capacity.

        :param lease: a lease to begin with.
        :raises InboxPausedError: the inbox is paused and has no more messages.
        :raises TargetError: no run can be started now. All leased messages are released, except the one that
            was rejected.
        :raises WorkflowError: a permanent error of a lease request, or of an acknowledgement that failed
            until its lease ended.
        """
        self._ends_at, before = clock.monotonic() + LONGEST_DRAIN_SECONDS, self.counts.handled
        try:
            with InboxSession(self.hook, self.inbox, self.runs.alongside) as session:
                if lease is not None:
                    # Not looked up by name: that may fail, or find another inbox by now.
                    session.inbox_id = lease.inbox_id or self.inbox_id
                    self._work_on(replace(lease, inbox_id=session.inbox_id), session)
                return self._lease_on(session)
        finally:
            if self.counts.handled > before:
                self._log_result()

    def _lease_on(self, session: InboxSession) -> Drained:
        while not session.is_rejected and (session.has_next or self._leases_on()):
            if session.unacknowledged >= MOST_UNACKNOWLEDGED and not session.has_next:
                self._acknowledge_again(session)
                continue
            count, seconds = (0, 0) if session.has_next else self.next_lease()
            if count == 0 and not session.has_next:
                return Drained.NO_CAPACITY
            try:
                lease = session.lease(count, seconds)
            except WorkflowError as error:
                if not self.is_transient_error(error):
                    raise
                return Drained.OUT_OF_REACH
            if lease is not None:
                self._work_on(lease, session)
            elif session.unacknowledged:
                self._acknowledge_again(session)
            else:
                return Drained.EMPTY
        return Drained.LIMIT

    def _leases_on(self) -> bool:
        """Whether this drain leases more: it ends after a time, and after a number of messages."""
        # A message that this drain left to its lease must not be leased by it again.
        in_time = clock.monotonic() < self._ends_at and clock.now() < self._redelivered_at
        return in_time and self.counts.handled < self.limits.most_messages

    def _acknowledge_again(self, session: InboxSession) -> None:
        """Wait, then send the failed acknowledgements again."""
        if self._pause == FIRST_PAUSE_SECONDS:
            log.warning(
                "Inbox %s: an acknowledgement failed. The runs of its messages exist, runs of other messages"
                " are started as before, and the acknowledgement is sent again until the lease ends",
                self.inbox,
            )
        clock.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        session.acknowledge_again()
        if not session.unacknowledged:
            self._pause = FIRST_PAUSE_SECONDS

    def _work_on(self, lease: HeldLease, session: InboxSession) -> None:
        """Start the runs of one lease, and acknowledge the messages that have theirs."""
        # The next lease may be of another inbox with the same name.
        self._leased_at = lease.inbox_id
        log_nameless(self.inbox, lease, self.hook.workflow_conn_id, self.counts)
        due = deque(lease.highest_delivery_count_first())
        started: list[str] = []
        began_at = clock.monotonic()
        try:
            self.working = True
            while due and self._capacity.wait_within(lease):
                if self.start_run(due[0]):
                    self._capacity.used()
                    started.append(due[0]["id"])
                else:
                    self._redelivered_at = min(self._redelivered_at, lease.ends_at)
                if delivery_count(due.popleft()) >= HIGH_DELIVERY_COUNT:
                    _acknowledge(session, lease, started)
                self._lease_ahead(lease, len(due), clock.monotonic() - began_at, session)
            self.working = False
        except BaseException as error:
            # execution_timeout and on_kill end a task with exceptions that are no errors.
            self.working = False
            self._give_up(lease, due, session, error)
            raise
        finally:
            _acknowledge(session, lease, started)
        if due:
            self._log_not_started(len(due), len(lease.messages))

    def _give_up(
        self, lease: HeldLease, due: deque[types.LeasedMessage], session: InboxSession, error: BaseException
    ) -> None:
        """Release the messages of a lease whose runs were not started."""
        if not isinstance(error, Exception):
            session.hurry()
        if isinstance(error, TargetError):
            if due and (not self.targets.is_proven or due[0]["id"] in self.counts.seen):
                # The rejected message stays leased: released, it would lose a delivery to the next try.
                due.popleft()
            self.targets.broke()
        session.release(lease, [message["id"] for message in due])

    def _lease_ahead(self, lease: HeldLease, left: int, elapsed: float, session: InboxSession) -> None:
        """
        Request the next lease if the runs of this one are nearly started.

        :param left: messages of this lease whose runs are not started yet.
        :param elapsed: seconds that the runs of the others took.
        """
        whole = len(lease.messages)
        more_may_be_there = whole >= self.limits.lease_limit and self.limits.max_unfinished_runs is None
        goes_on = left and self.targets.is_proven and self._leases_on() and not session.unacknowledged
        if session.has_next or not (goes_on and more_may_be_there):
            return
        nearly_done = left * elapsed / (whole - left) <= LEASE_AHEAD_SECONDS
        if not nearly_done:
            return
        count, seconds = self.next_lease(held=left)
        if count > 0:
            session.lease_ahead(count, seconds)

    def start_run(self, message: types.LeasedMessage) -> bool:
        """
        Start the run of a message, or find it.

        :return: whether the message may be acknowledged.
        :raises TargetError: no run of any message can be started now.
        """
        message_id = message["id"]
        if (count := delivery_count(message)) >= HIGH_DELIVERY_COUNT:
            log.warning(
                "Inbox %s: message %s is on its delivery number %d", self.inbox, plain(message_id), count
            )
        content = without_lease(message)
        run_id = run_id_of(message_id, self._leased_at)
        dag_id, outcome = self._found_before(message), Start.EXISTING
        try:
            if dag_id is None:
                dag_id = self.routes.target(content)
                if dag_id is None:
                    log.debug(
                        "Inbox %s: message %s is unmatched; its lease expires", self.inbox, plain(message_id)
                    )
                    return False
                outcome = self.runs.start(dag_id, run_id, self._conf(content), self._note(message_id))
        except (RunRejected, UnroutableError) as error:
            self.counts.refuse(message["id"], str(error))
            log_rejection(self.hook, self.inbox, message, error)
            if isinstance(error, RunRejected) and not isinstance(error, UnencodableConf):
                self._raise_if_target_at_fault(str(dag_id), error)
            return False
        self.targets.takes(dag_id, outcome)
        self._record(outcome, message_id, run_id)
        return True

    def _found_before(self, message: types.LeasedMessage) -> str | None:
        """
        The DAG that has a run of an earlier delivery of the message.

        An expression may read a value that changes between deliveries, and must not choose a second DAG. A
        run that version 0.1 started under another id must not be started again.
        """
        if delivery_count(message) < 2:
            return None
        former = former_run_id_of(message["id"])
        run_ids = [] if former is None else [former]
        if len(self.routes.dag_ids) > 1:
            run_ids.append(run_id_of(message["id"], self._leased_at))
        dag_ids = self.routes.dag_ids
        return next((d for d in dag_ids if any(self.runs.exists(d, each) for each in run_ids)), None)

    def _conf(self, content: dict[str, Any]) -> dict[str, Any]:
        message, replaced = storable(content)
        log_replaced(self.inbox, content["id"], replaced)
        return {"inbox_id": self._leased_at, "message": message}

    def _note(self, message_id: str) -> str:
        note = f"Message {plain(message_id)} of the inbox {plain(self.inbox)}"
        return (f"{note}, started by {self.origin}" if self.origin else note)[:LONGEST_NOTE]

    def _record(self, outcome: Start, message_id: str, run_id: str) -> None:
        if self._in_a_row.rejected:
            self._in_a_row = RejectionsInARow()
        self.counts.count(outcome.value, message_id)
        self.counts.add_run(run_id)
        metric = metrics.STARTED if outcome is Start.STARTED else metrics.EXISTING
        metrics.count(metric, 1, inbox=self.inbox, conn_id=self.hook.workflow_conn_id)

    def _raise_if_target_at_fault(self, dag_id: str, error: RunRejected) -> None:
        """
        Decide whether the message or the target is at fault for a rejection.

        :raises TargetError: the target, or Airflow itself.
        """
        if not self.targets.has_started(dag_id):
            raise TargetError(
                f"Airflow rejected a run of the DAG {dag_id!r} before this task had started any: {error}."
                " Correct the DAG (its params, its timetable, or the pattern of run ids). Each retry of this"
                " task begins with one message; no message is lost."
            )
        if isinstance(error, ServerFault):
            # Raises TargetError if Airflow does not answer.
            self.runs.unfinished(dag_id)
        self._in_a_row.add(dag_id, error)

    def _log_not_started(self, count: int, whole: int) -> None:
        log.warning(
            "Inbox %s: %d of %d leased messages were not started before the %g s safety margin at the end of"
            " their lease; they are redelivered",
            self.inbox,
            count,
            whole,
            MARGIN_SECONDS,
        )

    def _log_result(self) -> None:
        self.counts.result["inbox_id"] = self._leased_at
        log.info(
            "Inbox %s: dispatched to %s: %s",
            plain(self.inbox),
            ", ".join(self.routes.dag_ids),
            self.counts.summary(),
        )


def _acknowledge(session: InboxSession, lease: HeldLease, ids: list[str]) -> None:
    """Acknowledge these messages, once."""
    chosen = ids.copy()
    ids.clear()
    session.acknowledge(lease, chosen)
