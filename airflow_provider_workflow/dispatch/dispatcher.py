"""
Lease, start, acknowledge: the drain that sensor, operator and command line share.

A message is acknowledged only after its run exists, and the id of that run follows from the ids of message
and inbox. A process that is killed in between does no harm: the message is redelivered, and its run is found.

A message has about five deliveries, so a target that is broken must not use them up, and messages that it
rejects must not hold up those behind them. No check that Airflow offers tells the two apart, so a drain
*probes*: until it has started a run of a target it leases one message at a time. A rejection is the message's
fault if the same drain starts a run of the same target, before it or after it, and the target's otherwise.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_workflow import clock, observers, types
from airflow_provider_workflow.client.errors import InboxPausedError, WorkflowError
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.dead_letters import (
    DeadLetterRules,
    DeadLetters,
    Reason,
    is_on_last_safe_delivery,
)
from airflow_provider_workflow.dispatch.lease import (
    HIGH_DELIVERY_COUNT,
    MARGIN_SECONDS,
    Acknowledgements,
    HeldLease,
    delivery_count,
    lease_once,
    may_be_redelivered,
    try_to_release,
    without_lease,
)
from airflow_provider_workflow.dispatch.payloads import log_replaced, storable
from airflow_provider_workflow.dispatch.rejected import Rejected, Rejection, probes_of, target_error
from airflow_provider_workflow.dispatch.rejections import MessageFault, RunRejected, TargetError
from airflow_provider_workflow.dispatch.results import (
    Counts,
    Drained,
    log_nameless,
)
from airflow_provider_workflow.dispatch.routing import Routes, UnroutableError
from airflow_provider_workflow.dispatch.runs import InboxRuns, Runs, Start, quoted, run_id_of
from airflow_provider_workflow.dispatch.targets import PROBE_SECONDS, Limits

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

LONGEST_DRAIN_SECONDS = 600.0
MOST_MESSAGES = 10_000
"""Messages that one task leases in all."""


@dataclass
class Dispatcher:
    """
    Turns the messages of one inbox into DAG runs, in one drain.

    :param hook: sends the calls.
    :param inbox: id or name.
    :param routes: chooses the DAG of a message.
    :param task_runs: starts, finds and counts runs.
    :param limits: how much is leased at a time.
    :param counts: the outcomes of messages, from those that are counted already.
    :param attempt: number of this try, 1 or more: each failed try before it doubles the number of messages
        that may be probed, and from the second one on a probe is leased for an hour.
    :param is_transient_error: whether an error of a lease request is transient: then the drain ends without
        an error.
    :param origin: the run of this task, for the notes of the runs that it starts; empty outside a task.
    :param dead_letter_rules: when messages become dead letters; None if they never do.
    :param working: whether runs of leased messages are being started at this moment.
    :param started: targets of which this drain has started a run.
    """

    hook: WorkflowHook
    inbox: str
    routes: Routes
    task_runs: Runs
    limits: Limits
    counts: Counts = field(default_factory=Counts)
    attempt: int = 1
    is_transient_error: Callable[[WorkflowError], bool] = lambda _: False
    origin: str = ""
    dead_letter_rules: DeadLetterRules | None = None
    working: bool = False
    started: set[str] = field(default_factory=set)
    _ends_at: float = 0.0
    _seconds_per_message: float = 0.0

    @cached_property
    def inbox_id(self) -> str:
        """The id of the inbox when the drain began; it may be deleted and created again meanwhile."""
        return self.hook.get_inbox(self.inbox)["id"]

    @cached_property
    def _most_messages(self) -> int:
        return min(MOST_MESSAGES, self.limits.max_messages or MOST_MESSAGES)

    @cached_property
    def _runs(self) -> InboxRuns:
        return InboxRuns(self.task_runs, self.hook.workflow_conn_id, self.inbox_id)

    @cached_property
    def _dead_letters(self) -> DeadLetters | None:
        if (rules := self.dead_letter_rules) is None:
            return None
        return DeadLetters(rules, self.task_runs, self.inbox, self.hook.workflow_conn_id, self.counts)

    @cached_property
    def _acknowledgements(self) -> Acknowledgements:
        return Acknowledgements(self.inbox)

    @cached_property
    def _rejected(self) -> Rejected:
        finish, started = self._acknowledgements.add, self.started
        return Rejected(self.hook, self.inbox, self.counts, self._dead_letters, finish, started)

    def check_targets(self, lease: HeldLease | None = None) -> None:
        """
        Check that the target DAGs and the dead-letter DAG exist, before anything is leased.

        :param lease: a lease of a trigger. If the check fails, its messages that the service would soon
            quarantine become dead letters.
        :raises TargetError: no run of one of them can be started.
        """
        dead_letters = [self.dead_letter_rules.dag_id] if self.dead_letter_rules else []
        try:
            for dag_id in (*self.routes.dag_ids, *dead_letters):
                self.task_runs.check_target(dag_id)
        except TargetError:
            if lease is not None:
                lease = self._of_inbox(lease)
                self._give_last_chances(lease, deque(lease.messages))
                self._acknowledgements.send(self.hook)
            raise

    def next_lease(self) -> tuple[int, int]:
        """
        The number of messages of the next lease, 0 without capacity, and its length in seconds.

        Half of the lease is enough to start their runs, at the pace of the lease before.

        :raises TargetError: Airflow does not count the unfinished runs.
        """
        limits = self.limits
        count = min(limits.lease_limit, self._most_messages - self.counts.handled)
        if count > 0 and limits.max_unfinished_runs is not None:
            unfinished = max(self.task_runs.unfinished(dag_id) for dag_id in self.routes.dag_ids)
            count = min(count, limits.max_unfinished_runs - unfinished)
        if self._is_probing:
            return max(0, min(count, 1)), PROBE_SECONDS if self.attempt > 1 else limits.lease_seconds
        # A message whose turn does not come before its lease ends has lost a delivery.
        seconds = (limits.lease_seconds - MARGIN_SECONDS) / 2
        in_time = int(seconds / max(self._seconds_per_message, 0.001))
        return max(0, min(count, max(1, in_time))), limits.lease_seconds

    @property
    def _is_probing(self) -> bool:
        """Whether a target may be broken. After a failed try any of several targets may be the cause."""
        is_first = self.attempt == 1
        return not (self.started if is_first else self.started.issuperset(self.routes.dag_ids))

    def drain(self, lease: HeldLease | None = None) -> Drained:
        """
        Lease messages and start their runs until the inbox is empty, a limit is reached, or there is no
        capacity.

        :param lease: a lease to begin with.
        :raises InboxPausedError: the inbox is paused and has no more messages.
        :raises TargetError: no run of a target can be started now. The leased messages are released, except
            those that were rejected.
        :raises WorkflowError: a permanent error of a lease request, or of an acknowledgement that failed at
            the end of its lease and at the end of the drain.
        """
        before = self.counts.handled
        try:
            return self._drain(lease)
        finally:
            if self.counts.handled > before:
                self.counts.result["inbox_id"] = self.inbox_id
                dag_ids, summary = ", ".join(self.routes.dag_ids), self.counts.summary()
                log.info("Inbox %s: dispatched to %s: %s", plain(self.inbox), dag_ids, summary)

    def _drain(self, lease: HeldLease | None) -> Drained:
        self._ends_at = clock.now() + LONGEST_DRAIN_SECONDS
        failure: Exception | None = None
        ended = Drained.UNREACHABLE
        try:
            if lease is not None:
                self._work_on(self._of_inbox(lease))
            if self._is_found():
                ended = self._lease_on()
        except Exception as error:
            failure = error
        target_error = self._finish()
        if failure is None or isinstance(failure, InboxPausedError):
            # A paused inbox is the least of them.
            failure = target_error or self._acknowledgements.error or failure
        if failure is not None:
            raise failure
        return ended

    def _finish(self) -> TargetError | None:
        """Decide about the rest, and acknowledge it; the error of targets that rejected everything."""
        rejected_by_targets = self._rejected.decide(at_the_end=True)
        self._acknowledgements.send(self.hook, at_the_end=True)
        return target_error(rejected_by_targets, self.attempt) if rejected_by_targets else None

    def _is_found(self) -> bool:
        """Whether the inbox is found; not if the service is unreachable for now."""
        try:
            return bool(self.inbox_id)
        except WorkflowError as error:
            if not self.is_transient_error(error):
                raise
            return False

    def _of_inbox(self, lease: HeldLease) -> HeldLease:
        """A lease with the id of its inbox, which is not looked up: another one may have its name by now."""
        if lease.inbox_id:
            self.inbox_id = lease.inbox_id
        return replace(lease, inbox_id=self.inbox_id)

    def _lease_on(self) -> Drained:
        while self._goes_on():
            count, seconds = self.next_lease()
            if count == 0:
                return Drained.NO_CAPACITY
            try:
                lease = lease_once(self.hook, self.inbox_id, count, seconds, self.inbox)
            except WorkflowError as error:
                if not self.is_transient_error(error):
                    raise
                return Drained.UNREACHABLE
            if lease is None:
                return Drained.EMPTY
            self._work_on(replace(lease, inbox_id=self.inbox_id))
        return Drained.LIMIT

    def _goes_on(self) -> bool:
        """Whether this drain leases more: it ends after a time, a number of messages, or fruitless probes."""
        # What this drain has left to a lease must not be leased by it again.
        in_time = clock.now() < min(self._ends_at, self._rejected.left_until)
        probes_left = self._rejected.unproven < probes_of(self.attempt)
        return in_time and probes_left and self.counts.handled < self._most_messages

    def _work_on(self, lease: HeldLease) -> None:
        """Start the runs of one lease, then acknowledge the messages that have theirs."""
        log_nameless(self.inbox, lease, self.hook.workflow_conn_id, self.counts)
        due = deque(lease.highest_delivery_count_first())
        began_at = clock.monotonic()
        try:
            self.working = True
            if self._acknowledgements.error is not None:
                # Messages that have their run lose nothing if the lease ends before their turn.
                due = deque(sorted(due, key=lambda message: self._dag_of_run(message) is not None))
            while due and lease.seconds_left() > 0:
                if self._start(due[0], lease):
                    self._acknowledgements.add(lease, due[0]["id"])
                due.popleft()
            self._rejected.decide()
        except BaseException as error:
            # execution_timeout and on_kill end a task with exceptions that are no errors.
            self.working = False
            self._give_up(lease, due, error)
            raise
        self.working = False
        worked_on = len(lease.messages) - len(due)
        self._seconds_per_message = (clock.monotonic() - began_at) / max(1, worked_on)
        self._acknowledgements.send(self.hook)
        if due:
            log.warning(
                "Inbox %s: %d of %d leased messages were not started before the %g s safety margin at the end"
                " of their lease; they are redelivered",
                self.inbox,
                len(due),
                len(lease.messages),
                MARGIN_SECONDS,
            )

    def _give_up(self, lease: HeldLease, due: deque[types.LeasedMessage], error: BaseException) -> None:
        """Release the messages of a lease whose runs were not started, and acknowledge the others."""
        if isinstance(error, TargetError) and due:
            # The rejected message stays leased: released, it would lose a delivery to the next try.
            due.popleft()
            try:
                self._give_last_chances(lease, due)
            except BaseException as last_error:
                self._give_up(lease, due, last_error)
                raise
        is_being_ended = not isinstance(error, Exception)
        if is_being_ended:
            self.hook = self.hook.hurried()
        message_ids = [message["id"] for message in due]
        try_to_release(self.hook, lease.inbox_id, lease.lease_id, message_ids, self.inbox)
        self._acknowledgements.send(self.hook, at_the_end=is_being_ended)

    def _give_last_chances(self, lease: HeldLease, due: deque[types.LeasedMessage]) -> None:
        """
        Try the messages that the service would soon quarantine, although their target is broken.

        Each starts its run or that of the dead-letter DAG, and is removed from those that are due.
        """
        if self._dead_letters is None:
            return
        for message in list(filter(is_on_last_safe_delivery, due)):
            try:
                if self._start(message, lease):
                    self._acknowledgements.add(lease, message["id"])
            except TargetError as error:
                log.debug("Inbox %s: message %s: %s", self.inbox, plain(message["id"]), error)
            due.remove(message)

    def _start(self, message: types.LeasedMessage, lease: HeldLease) -> bool:
        """
        Start the run of a message, or find it.

        :return: whether the message may be acknowledged for it.
        :raises TargetError: no run of any message can be started now.
        """
        if (count := delivery_count(message)) >= HIGH_DELIVERY_COUNT:
            log.warning(
                "Inbox %s: message %s is on its delivery number %d", self.inbox, plain(message["id"]), count
            )
        dag_ids = self.routes.dag_ids
        dag_id = dag_ids[0] if len(dag_ids) == 1 else None
        try:
            if self._dead_letters is not None and self._dead_letters.is_found(message, self.inbox_id):
                return True
            dag_with_run = self._dag_of_run(message) if self._looks_for_runs else None
            if dag_with_run is not None:
                self._record(Start.EXISTING, dag_with_run, message["id"])
                return True
            dag_id = self.routes.target(without_lease(message))
            if dag_id is None:
                self._rejected.leave_unmatched(message, lease)
                return False
            if lease.seconds_left() <= 0:
                # Airflow may have taken long to answer what it was asked before.
                log.info("Inbox %s: the lease of message %s has ended", self.inbox, plain(message["id"]))
                return False
            outcome = self._start_run(dag_id, message, lease)
        except (RunRejected, UnroutableError) as error:
            self._reject(Rejection(message, lease, dag_id, str(error)), error)
            return False
        self._record(outcome, dag_id, message["id"])
        return True

    @property
    def _looks_for_runs(self) -> bool:
        """
        Whether runs of earlier deliveries are looked for, where starting a message's run may not find it.

        An expression may read a value that changes between deliveries, and must not choose a second DAG; and
        a message that has its run must not become a dead letter.
        """
        return self._dead_letters is not None or len(self.routes.dag_ids) > 1

    def _dag_of_run(self, message: types.LeasedMessage) -> str | None:
        """The DAG that has a run of an earlier delivery of a message."""
        if not may_be_redelivered(message):
            return None
        return next((d for d in self.routes.dag_ids if self._runs.exists(d, message["id"])), None)

    def _start_run(self, dag_id: str, message: types.LeasedMessage, lease: HeldLease) -> Start:
        content, replaced = storable(without_lease(message))
        log_replaced(self.inbox, message["id"], replaced)
        note = f"Message {quoted(message['id'])} of the inbox {quoted(self.inbox)}"
        try:
            return self._runs.start(
                dag_id, content, f"{note}, started by {self.origin}" if self.origin else note
            )
        except TargetError as error:
            if is_on_last_safe_delivery(message):
                self._rejected.blame_target(Rejection(message, lease, dag_id, str(error)))
            raise

    def _reject(self, rejection: Rejection, error: Exception) -> None:
        if isinstance(error, UnroutableError):
            self._rejected.blame_message(rejection, Reason.EXPRESSION)
        elif isinstance(error, MessageFault):
            self._rejected.blame_message(rejection)
        else:
            self._rejected.reject(rejection)

    def _record(self, outcome: Start, dag_id: str, message_id: str) -> None:
        if outcome is Start.STARTED:
            # Airflow finds an existing run before it checks anything else, so that one shows nothing.
            self._rejected.start(dag_id)
        self.counts.count(outcome.value, message_id)
        self.counts.add_run(run_id_of(message_id, self.inbox_id))
        observers.tell(outcome.value, inbox=self.inbox, conn_id=self.hook.workflow_conn_id)
