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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock, metrics
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.blame import Blame
from airflow_provider_workflow.dispatch.dead_letters import (
    DeadLetter,
    DeadLetterRules,
    DeadLetters,
    is_on_last_safe_delivery,
)
from airflow_provider_workflow.dispatch.lease import (
    HIGH_DELIVERY_COUNT,
    HeldLease,
    delivery_count,
    without_lease,
)
from airflow_provider_workflow.dispatch.payloads import log_replaced, storable
from airflow_provider_workflow.dispatch.rejection_history import RejectionHistory
from airflow_provider_workflow.dispatch.rejections import RunRejected, TargetError
from airflow_provider_workflow.dispatch.results import (
    Counts,
    Drained,
    log_nameless,
    log_not_started,
    log_result,
)
from airflow_provider_workflow.dispatch.routing import Routes, UnroutableError
from airflow_provider_workflow.dispatch.runs import Runs, Start, former_run_id_of, run_id_of
from airflow_provider_workflow.dispatch.session import InboxSession, while_missing
from airflow_provider_workflow.dispatch.targets import Capacity, Limits, TargetCheck

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

LONGEST_DRAIN_SECONDS = 600.0
MOST_UNACKNOWLEDGED = 2
"""Leases with a failed acknowledgement; with so many, nothing more is leased."""


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
    :param dead_letter_rules: when messages become dead letters; None if they never do.
    :param on_dead_letter: called with each dead letter whose run was started, and the id of that run.
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
    dead_letter_rules: DeadLetterRules | None = None
    on_dead_letter: Callable[[DeadLetter, str], None] | None = None
    working: bool = False
    _leased_at: str = ""
    _session: InboxSession = field(init=False)
    _redelivered_at: float = math.inf
    _ends_at: float = math.inf

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

    @cached_property
    def _dead_letters(self) -> DeadLetters | None:
        if self.dead_letter_rules is None:
            return None
        where = self.inbox, self.hook.workflow_conn_id
        return DeadLetters(self.dead_letter_rules, self.runs, *where, self.counts, self.on_dead_letter)

    @cached_property
    def _blame(self) -> Blame:
        history = RejectionHistory(self.hook.workflow_conn_id, self.inbox)
        if self._dead_letters is not None:
            history.load()
        of_drain = self.hook, self.inbox, self.targets, self.counts, self._dead_letters, history
        return Blame(*of_drain, lambda lease, message_id: self._session.acknowledge(lease, [message_id]))

    def check_targets(self, lease: HeldLease | None = None) -> None:
        """
        Check the target DAGs, before anything is leased.

        :param lease: a lease of a trigger. If the check fails, its messages that the service would soon
            quarantine become dead letters.
        :raises TargetError: no run of one of them can be started.
        """
        try:
            self.targets.check()
        except TargetError as error:
            if lease is not None and self._dead_letters is not None:
                self._fail(lease, error)
            raise

    def _fail(self, lease: HeldLease, error: TargetError) -> None:
        """Make dead letters of the messages of a hand-off that are on their last safe delivery."""
        inbox_id = self._leased_at = lease.inbox_id or self.inbox_id
        with InboxSession(self.hook, self.inbox, alongside=False, inbox_id=inbox_id) as self._session:
            self._rescue(replace(lease, inbox_id=inbox_id), deque(lease.messages), error)

    def _rescue(self, lease: HeldLease, due: deque[types.LeasedMessage], error: TargetError) -> None:
        """Make dead letters of the messages on their last safe delivery; remove each from those due."""
        for message in list(filter(is_on_last_safe_delivery, due)):
            due.remove(message)
            # Raised again for each message that has no run.
            with suppress(TargetError):
                if self.start_run(message, lease, error):
                    self._session.acknowledge(lease, [message["id"]])

    def next_lease(self, held: int = 0) -> tuple[int, int]:
        """
        The number of messages of the next lease, 0 without capacity, and its length in seconds.

        :param held: leased messages whose runs are not started yet.
        """
        left = self._capacity.left(self.counts.handled + held)
        return self.targets.next_lease(min(left, self.limits.lease_limit), self.limits.lease_seconds)

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
                return self._drain(session, lease)
        finally:
            if self._dead_letters is not None and "_blame" in vars(self):
                self._blame.history.save()
            if self.counts.handled > before:
                self.counts.result["inbox_id"] = self._leased_at
                log_result(self.inbox, self.routes.dag_ids, self.counts)

    def _drain(self, session: InboxSession, lease: HeldLease | None) -> Drained:
        self._session = session
        try:
            if lease is not None:
                # Not looked up by name: that may fail, or find another inbox by now.
                session.inbox_id = lease.inbox_id or self.inbox_id
                self._work_on(replace(lease, inbox_id=session.inbox_id), session)
            drained = self._lease_on(session)
            self._decide()
        except Exception:
            self._decide(target_broke=True)
            raise
        return drained

    def _decide(self, *, target_broke: bool = False) -> None:
        """Decide about the rejected messages for which no run of another message came."""
        if self._dead_letters is not None and self._blame.undecided:
            self._blame.decide(target_broke=target_broke)

    def _lease_on(self, session: InboxSession) -> Drained:
        while not session.is_rejected and (session.has_next or self._leases_on()):
            if session.unacknowledged >= MOST_UNACKNOWLEDGED and not session.has_next:
                session.acknowledge_again()
                continue
            count, seconds = (0, 0) if session.has_next else self.next_lease()
            if count == 0 and not session.has_next:
                return Drained.NO_CAPACITY
            try:
                lease = session.lease(count, seconds)
            except WorkflowError as error:
                if not self.is_transient_error(error):
                    raise
                return Drained.UNREACHABLE
            if lease is not None:
                self._work_on(lease, session)
            elif session.unacknowledged:
                session.acknowledge_again()
            else:
                return Drained.EMPTY
        return Drained.LIMIT

    def _leases_on(self) -> bool:
        """Whether this drain leases more: it ends after a time, and after a number of messages."""
        # A message that this drain left to its lease must not be leased by it again.
        in_time = clock.monotonic() < self._ends_at and clock.now() < self._redelivered_at
        return in_time and self.counts.handled < self.limits.most_messages

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
                if self._blame.rejected:
                    # The message with the lowest delivery count shows best whether the target is at fault.
                    due.rotate(1)
                if self.start_run(due[0], lease):
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
            log_not_started(self.inbox, len(due), len(lease.messages))

    def _give_up(
        self, lease: HeldLease, due: deque[types.LeasedMessage], session: InboxSession, error: BaseException
    ) -> None:
        """Release the messages of a lease whose runs were not started."""
        if not isinstance(error, Exception):
            self._hurry(session)
        target_broke = isinstance(error, TargetError)
        undecided = [each.message["id"] for each in self._blame.undecided]
        rejected = {*self.counts.seen, *undecided, self._blame.deciding}
        if due and (due[0]["id"] in rejected or (target_broke and not self.targets.is_proven)):
            # The rejected message stays leased: released, it would lose a delivery to the next try.
            due.popleft()
        try:
            if isinstance(error, TargetError) and self._dead_letters is not None:
                self._rescue(lease, due, error)
        except BaseException:
            self._hurry(session)
            raise
        finally:
            session.release(lease, [message["id"] for message in due])
        if target_broke:
            self.targets.broke()

    def _hurry(self, session: InboxSession) -> None:
        """The task is being ended: only release what it holds."""
        session.hurry()
        self._blame.history.discard()

    def _lease_ahead(self, lease: HeldLease, left: int, elapsed: float, session: InboxSession) -> None:
        """
        Request the next lease if the runs of this one are nearly started.

        :param left: messages of this lease whose runs are not started yet.
        :param elapsed: seconds that the runs of the others took.
        """
        whole = len(lease.messages)
        more_may_be_there = whole >= self.limits.lease_limit and self.limits.max_unfinished_runs is None
        if not (left and more_may_be_there and self.targets.is_proven and self._leases_on()):
            return
        if session.is_time_for_next(left * elapsed / (whole - left)):
            count, seconds = self.next_lease(held=left)
            if count > 0:
                session.lease_ahead(count, seconds)

    def start_run(
        self, message: types.LeasedMessage, lease: HeldLease, broken: TargetError | None = None
    ) -> bool:
        """
        Start the run of a message, or find it.

        :param lease: of the message.
        :param broken: why no run can be started; an existing one is found nevertheless.
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
        if self._dead_letters is not None and self._dead_letters.is_found(message, self._leased_at):
            return True
        dag_id, outcome = self._found_before(message), Start.EXISTING
        try:
            if dag_id is None:
                dag_id = self.routes.target(content)
                if dag_id is None:
                    self._leave_unmatched(message, lease)
                    return False
                if broken is not None:
                    raise broken
                if lease.seconds_left() <= 0:
                    # Airflow may have taken long to answer what it was asked before.
                    log.info("Inbox %s: the lease of message %s has ended", self.inbox, plain(message_id))
                    return False
                outcome = self.runs.start(dag_id, run_id, self._conf(content), self._note(message_id))
        except TargetError as error:
            self._blame.fail(message, lease, str(dag_id), error)
            raise
        except (RunRejected, UnroutableError) as error:
            only = self.routes.dag_ids[0] if len(self.routes.dag_ids) == 1 else None
            self._blame.reject(message, lease, dag_id or only, error)
            return False
        self.targets.takes(dag_id, outcome)
        self._record(outcome, dag_id, message_id, run_id)
        return True

    def _leave_unmatched(self, message: types.LeasedMessage, lease: HeldLease) -> None:
        log.debug("Inbox %s: message %s is unmatched; its lease expires", self.inbox, plain(message["id"]))
        if self._dead_letters is not None:
            self._blame.unmatched(message, lease)

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
        if len(self.routes.dag_ids) > 1 or self._dead_letters is not None:
            run_ids.append(run_id_of(message["id"], self._leased_at))
        dag_ids = self.routes.dag_ids
        return next((d for d in dag_ids if any(self.runs.exists(d, each) for each in run_ids)), None)

    def _conf(self, content: dict[str, Any]) -> dict[str, Any]:
        message, replaced = storable(content)
        log_replaced(self.inbox, content["id"], replaced)
        connection_id = self.hook.workflow_conn_id
        return {"connection_id": connection_id, "inbox_id": self._leased_at, "message": message}

    def _note(self, message_id: str) -> str:
        note = f"Message {plain(message_id)} of the inbox {plain(self.inbox)}"
        return f"{note}, started by {self.origin}" if self.origin else note

    def _record(self, outcome: Start, dag_id: str, message_id: str, run_id: str) -> None:
        if self._dead_letters is not None or self._blame.rejected:
            self._blame.start(dag_id, message_id, outcome)
        self.counts.count(outcome.value, message_id)
        self.counts.add_run(run_id)
        metric = metrics.STARTED if outcome is Start.STARTED else metrics.EXISTING
        metrics.count(metric, 1, inbox=self.inbox, conn_id=self.hook.workflow_conn_id)


def _acknowledge(session: InboxSession, lease: HeldLease, ids: list[str]) -> None:
    """Acknowledge these messages, once."""
    chosen = ids.copy()
    ids.clear()
    session.acknowledge(lease, chosen)
