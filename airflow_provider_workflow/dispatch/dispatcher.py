"""
Lease, start, acknowledge: the drain that sensor, operator and command line share.

A message is acknowledged only after its run exists. If the process is killed in between, the message is
redelivered, and its run is found by its id.

A message has about five deliveries. Neither a broken target, nor a message that kills the process, nor a
lease that is too large for its memory may use up those of others. So a drain *probes*: until it has started
or found a run of a target it leases single messages. Then leases grow (:mod:`.lease_size`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock, observers
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.blame import Fault, Reason, Refusal
from airflow_provider_workflow.dispatch.cpu_limit import CheckTooSlowError, limited
from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules, DeadLetters
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.holding import TaskLife, holding
from airflow_provider_workflow.dispatch.lease import MARGIN_SECONDS, HeldLease, check_source, lease_once
from airflow_provider_workflow.dispatch.lease_size import LeaseSize
from airflow_provider_workflow.dispatch.payload_store import PayloadStore, PayloadStoreError
from airflow_provider_workflow.dispatch.quarantine import check_quarantine
from airflow_provider_workflow.dispatch.rejections import Rejections, check_outlasted_lease
from airflow_provider_workflow.dispatch.results import Counts, DrainEnd
from airflow_provider_workflow.dispatch.routing import Routes, UnroutableError
from airflow_provider_workflow.dispatch.run_errors import MessageFault, RunRejected, TargetError
from airflow_provider_workflow.dispatch.runs import MessageRuns, Runs, Start
from airflow_provider_workflow.dispatch.schema import InvalidPayloadError
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.limits import PROBE_SECONDS, Limits
from airflow_provider_workflow.source import SourceError
from airflow_provider_workflow.text import counted, escaped, quoted

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

MAX_DRAIN_SECONDS = 600.0
MAX_MESSAGES = 10_000
"""Messages that one task leases in all."""
REFUSALS: dict[type[Exception], Reason] = {
    UnroutableError: Reason.EXPRESSION,
    InvalidPayloadError: Reason.INVALID,
    CheckTooSlowError: Reason.INVALID,
    RunRejected: Reason.REJECTED,
}
"""Why a message starts no run, and the reason of its dead letter if it is at fault."""


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
    :param origin: the run of this task, for the notes of the runs that it starts; empty outside a task.
    :param check_payload: raises ``InvalidPayloadError`` for a payload that starts no run.
    :param dead_letter_rules: when messages become dead letters; None if they never do.
    :param store: for payloads that are not in the confs of runs; None if all are.
    :param checks_source: whether a drain that leaves messages fails for its source too.
    :param reports_quarantine: whether a drain that empties the inbox lists it for quarantined messages.
    :param task: whether the task was killed.
    :param size: the number of messages of the next lease, as far as the target is known to work.
    :param unreachable: the transient error of a lease request with which the drain ended.
    """

    hook: WorkflowHook
    inbox: str
    routes: Routes
    task_runs: Runs
    limits: Limits
    counts: Counts = field(default_factory=Counts)
    attempt: int = 1
    origin: str = ""
    check_payload: Callable[[Any], None] | None = None
    dead_letter_rules: DeadLetterRules | None = None
    store: PayloadStore | None = None
    checks_source: bool = True
    reports_quarantine: bool = True
    task: TaskLife = field(default_factory=TaskLife)
    size: LeaseSize = field(init=False)
    unreachable: WorkflowError | None = None
    _runs: MessageRuns = field(init=False)
    _dead_letters: DeadLetters | None = field(init=False)
    _rejections: Rejections = field(init=False)
    _ends_at: float = 0.0
    _seconds_per_message: float = 0.0
    _target_error: TargetError | None = None
    _found: set[str] = field(default_factory=set)
    """Targets of which a run was found, and that have rejected no message since."""
    _released: set[str] = field(default_factory=set)
    """Ids of the messages that this drain released, which explains their next delivery."""
    _unexplained: int = 0
    """Redelivered messages of a lease whose runs were started only now."""
    _finished: dict[str, tuple[HeldLease, list[str]]] = field(default_factory=dict)
    _finished_of: Counter[str] = field(default_factory=Counter)
    """Number of finished messages by lease id."""
    _acknowledgement_error: WorkflowError | None = None
    _keyless_level: int = logging.INFO

    def __post_init__(self) -> None:
        conn_id, routes, rules = self.hook.workflow_conn_id, self.routes, self.dead_letter_rules
        self.size = LeaseSize(self.limits.lease_limit, self.attempt)
        key_of = routes.key if routes.has_keys else None
        self._runs = MessageRuns(self.task_runs, conn_id, key_of, routes.trace_context, self.store)
        self._dead_letters = DeadLetters(rules, self._runs, self.inbox, self.counts) if rules else None
        self._rejections = Rejections(
            self.inbox, conn_id, self.counts, self._dead_letters, self._finish_message
        )

    @property
    def inbox_name(self) -> str:
        """The name of the inbox, as far as this process knows it; escaped."""
        return name_of(self.inbox, self.hook.workflow_conn_id)

    @property
    def started(self) -> set[str]:
        """Targets of which this drain started a run."""
        return self._rejections.blame.started

    def drain(self, lease: HeldLease | None = None) -> DrainEnd:
        """
        Lease messages and start their runs until the inbox is empty, a limit is reached, or there is no
        capacity.

        :param lease: a lease of a trigger to begin with.
        :return: why the drain ended; ``UNREACHABLE`` with the error in ``unreachable``.
        :raises SourceError: the inbox has no more messages, and no events arrive in it.
        :raises PayloadStoreError: payloads cannot be written now; nothing is leased.
        :raises TargetError: no run of a target can be started now. The leased messages are released, except
            those that were rejected.
        :raises WorkflowError: a permanent error of a lease request, or of an acknowledgement that failed at
            the end of its lease and at the end of the drain.
        """
        handled_before = self.counts.handled
        try:
            return self._drain(lease)
        finally:
            if self.counts.handled > handled_before:
                dag_ids, summary = ", ".join(self.routes.dag_ids), self.counts.summary()
                log.info("Inbox %s: dispatched to %s: %s", self.inbox_name, dag_ids, summary)

    def _drain(self, lease: HeldLease | None) -> DrainEnd:
        self._ends_at = clock.now() + MAX_DRAIN_SECONDS
        failure: Exception | None = None
        drained = DrainEnd.LIMIT
        inbox_id = lease.inbox_id if lease is not None else ""
        try:
            if lease is not None:
                self._work_on(lease, len(lease.deliveries), checks_targets=True)
            else:
                self._check_targets()
                # Looked up once: the inbox may be deleted and created again meanwhile.
                inbox_id = "" if self._target_error else self.hook.inbox_id(self.inbox)
            drained = self._lease_on(inbox_id)
        except Exception as error:
            failure = error
        broken = self._rejections.end_drain(self.attempt)
        self._target_error = self._target_error or broken
        self._acknowledge(self.hook, at_the_end=True)
        is_silent = isinstance(failure, SourceError) and not isinstance(failure, PayloadStoreError)
        if self.reports_quarantine and (drained is DrainEnd.EMPTY or is_silent):
            check_quarantine(self.hook, inbox_id)
        if isinstance(failure, WorkflowError) and failure.transient:
            self.unreachable, failure = failure, None
            drained = DrainEnd.UNREACHABLE
        elif failure is None and self._target_error is None and drained is not DrainEnd.EMPTY:
            # Last, as it may take as long as a lease.
            failure = self._error_of_source(inbox_id)
        if (cause := self._error_of_drain(failure)) is not None:
            raise cause
        return drained

    def _error_of_drain(self, failure: Exception | None) -> Exception | None:
        """
        The error with which the drain fails.

        :param failure: what ended it. The next lease meets an error of the service again, so the others come
            first.
        """
        if failure is None or isinstance(failure, (WorkflowError, SourceError)):
            return self._target_error or self._acknowledgement_error or failure
        return failure

    def _error_of_source(self, inbox_id: str) -> Exception | None:
        try:
            if self.checks_source:
                check_source(inbox_id, self.hook.workflow_conn_id, self.hook.get_inbox(inbox_id))
        except Exception as error:
            return None if getattr(error, "transient", False) else error
        return None

    def _check_targets(self) -> None:
        """
        Find out whether the target DAGs and the dead-letter DAG exist, and payloads can be written.

        :raises PayloadStoreError: they cannot be written.
        """
        if self.store is not None:
            self.store.check()
        self._target_error = None
        try:
            for dag_id in self.routes.dag_ids:
                self.task_runs.check_target(dag_id)
            if self.dead_letter_rules:
                self.task_runs.check_target(self.dead_letter_rules.dag_id, "dead_letter_dag_id")
        except TargetError as error:
            self._target_error = error

    # Leasing

    def next_lease(self) -> tuple[int, int]:
        """
        The number of messages of the next lease, 0 without capacity, and its length in seconds.

        :raises TargetError: Airflow does not count the unfinished runs.
        """
        limits = self.limits
        count = min(self.size.next, self._most_messages - self.counts.handled)
        if count > 0 and limits.max_unfinished_runs is not None:
            unfinished = max(self.task_runs.unfinished(dag_id) for dag_id in self.routes.dag_ids)
            count = min(count, limits.max_unfinished_runs - unfinished)
        # A target may be broken. After a failed try any of several targets may be the cause.
        is_first_try = self.attempt == 1
        known, targets = self.started | self._found, set(self.routes.dag_ids)
        if not (known if is_first_try else known >= targets):
            return max(0, min(count, 1)), limits.lease_seconds if is_first_try else PROBE_SECONDS
        # At the last pace, only what can be started in time: others lose a delivery.
        in_time = int(self._half_lease_seconds / max(self._seconds_per_message, 0.001))
        return max(0, min(count, max(1, in_time))), limits.lease_seconds

    @property
    def _half_lease_seconds(self) -> float:
        """How long the messages of one lease may take, as far as that can be planned."""
        return (self.limits.lease_seconds - MARGIN_SECONDS) / 2

    @property
    def _most_messages(self) -> int:
        return min(MAX_MESSAGES, self.limits.max_messages or MAX_MESSAGES)

    def _lease_on(self, inbox_id: str) -> DrainEnd:
        """
        Work on one lease after the other.

        :raises PayloadStoreError: payloads cannot be written any more.
        """
        while True:
            self.task.check()
            if self._dead_letters is not None and self._dead_letters.store_error is not None:
                raise self._dead_letters.store_error
            has_ended = self._target_error is not None or clock.now() >= self._ends_at
            if has_ended or self.counts.handled >= self._most_messages:
                return DrainEnd.LIMIT
            if self._rejections.blame.probes_left(self.attempt) <= 0:
                return DrainEnd.LIMIT
            if self._rejections.is_urgent(self._half_lease_seconds):
                return DrainEnd.LIMIT
            count, seconds = self.next_lease()
            if count == 0:
                return DrainEnd.NO_CAPACITY
            if (lease := lease_once(self.hook, inbox_id, count, seconds)) is None:
                return DrainEnd.EMPTY
            self._work_on(lease, count)

    # Starting

    def _work_on(self, lease: HeldLease, requested: int, *, checks_targets: bool = False) -> None:
        """
        Start the runs of one lease, acknowledge the messages that have theirs, and release the rest.

        :param requested: how many messages the lease could have had.
        :param checks_targets: for the first lease of a drain, which its trigger has obtained.
        """
        self.counts.result["inbox_id"] = lease.inbox_id
        with holding(lease, self.hook, self.task, self._acknowledge) as unsettled:
            if checks_targets:
                self._check_targets()
            began_at, self._unexplained = clock.monotonic(), 0
            self._start_runs(lease, unsettled)
            tried = len(lease.deliveries) - len(unsettled)
            self._seconds_per_message = (clock.monotonic() - began_at) / max(1, tried)
            self.size.add_lease(requested, tried, is_explained=not self._unexplained)
            if self._finished_of.pop(lease.lease_id, 0) < tried:
                # After the end of the lease the drain would lease the same messages again.
                self._ends_at = min(self._ends_at, lease.ends_at)
            self._acknowledge(self.hook)
            if unsettled and self._target_error is None:
                log.warning(
                    "Inbox %s: %d of %s not started before the %g s safety margin at the end of their lease;"
                    " they are released",
                    self.inbox_name,
                    len(unsettled),
                    counted(len(lease.deliveries), "leased message was", "leased messages were"),
                    MARGIN_SECONDS,
                )
            self._released.update(unsettled)

    def _start_runs(self, lease: HeldLease, unsettled: dict[str, Delivery]) -> None:
        """
        Start the runs of messages while there is time; each one that was tried is settled.

        :raises PayloadStoreError: a payload cannot be written.
        """
        deliveries = lease.deliveries
        if self._acknowledgement_error is not None:
            # Messages that have their run lose nothing if the lease ends first.
            deliveries = sorted(deliveries, key=lambda delivery: self._find_run(delivery) is not None)
        for delivery in deliveries:
            has_last_chance = self._dead_letters is not None and delivery.is_last_safe
            is_over = self._target_error is not None and not has_last_chance
            if is_over or lease.seconds_left() <= 0:
                break
            try:
                if self._start(delivery, lease):
                    self._finish_message(lease, delivery.id)
            except TargetError as error:
                self._target_error = self._target_error or error
            except PayloadStoreError:
                # If only its payload fails, it must not be leased again at once.
                unsettled.pop(delivery.id, None)
                raise
            unsettled.pop(delivery.id, None)
        self._rejections.end_lease()

    def _start(self, delivery: Delivery, lease: HeldLease) -> bool:
        """
        Start the run of a message, or find it. The order of the questions is the table of docs/promise.md.

        :return: whether the message may be acknowledged for it.
        :raises TargetError: no run of any message can be started now.
        """
        if self._dead_letters is not None and self._dead_letters.is_found(delivery):
            return True
        # An expression may read a value that changes, and must not choose a second DAG; and a message
        # that has its run is not rejected. The run of its key exempts it from no check.
        is_looked_up = len(self.routes.dag_ids) > 1 or not delivery.is_first
        run = self._find_run(delivery) if is_looked_up else None
        if run is not None and run[0] is not Start.REPEATED:
            self._record(*run, delivery)
            return True
        if delivery.is_redelivered:
            # It may have killed the process. If it does so again, that costs nothing that is done.
            self._acknowledge(self.hook)
        return self._try(delivery, lease, run)

    def _try(self, delivery: Delivery, lease: HeldLease, run: tuple[Start, str] | None) -> bool:
        """
        Check a message, and start its run.

        :param run: that of its business key, if there is one.
        :return: whether the message may be acknowledged for it.
        :raises TargetError: no run of any message can be started now.
        :raises PayloadStoreError: the payload cannot be written.
        """
        dag_ids = self.routes.dag_ids
        dag_id = dag_ids[0] if len(dag_ids) == 1 else None
        try:
            dag_id = self.routes.target(delivery.message)
            if dag_id is None:
                self._rejections.leave_unmatched(delivery, lease)
                return False
            if run is None and self._rejections.is_undecided(delivery):
                self._rejections.bury_undecided(delivery, lease, dag_id)
                return False
            self._check(delivery)
            content = self._runs.content_of(delivery) if run is None else {}
            if lease.seconds_left() <= 0:
                # Airflow, or the payload store, may have taken long to answer.
                log.info("Inbox %s: the lease of message %s has ended", self.inbox_name, escaped(delivery.id))
                return False
            self._record(*(run or (self._start_run(dag_id, delivery, content, lease), dag_id)), delivery)
        except tuple(REFUSALS) as error:
            self._refuse(delivery, lease, dag_id, error)
            return False
        return True

    def _check(self, delivery: Delivery) -> None:
        """
        Check the payload of a message, and its business key.

        :raises InvalidPayloadError: the payload does not fit the schema.
        :raises UnroutableError: ``once_per`` cannot be evaluated on it.
        :raises CheckTooSlowError: that takes too long.
        """
        if self.check_payload is not None:
            limited("schema", self.check_payload, delivery.message["payload"])
        if self.routes.has_keys and self.routes.key(delivery.message) is None:
            observers.notify("without_key", inbox=self.inbox, conn_id=self.hook.workflow_conn_id)
            text = "Inbox %s: once_per is empty for message %s, which starts a run of its own"
            log.log(self._keyless_level, text, self.inbox_name, escaped(delivery.id))
            self._keyless_level = logging.DEBUG  # of the further ones

    def _refuse(self, delivery: Delivery, lease: HeldLease, dag_id: str | None, error: Exception) -> None:
        """
        A message starts no run.

        :raises TargetError: so many were rejected that the target must be broken, or a check used up the
            lease.
        """
        reason = next(reason for type_, reason in REFUSALS.items() if isinstance(error, type_))
        refusal = Refusal(delivery, lease, dag_id, str(error), reason)
        if isinstance(error, RunRejected) and not isinstance(error, MessageFault):
            self._found.discard(str(dag_id))
            self._rejections.reject(refusal)
            return
        self._rejections.settle(refusal, Fault.MESSAGE)
        if isinstance(error, CheckTooSlowError) and lease.seconds_left() <= 0:
            raise check_outlasted_lease(delivery.id, error) from None

    def _find_run(self, delivery: Delivery) -> tuple[Start, str] | None:
        """The run of an earlier delivery of a message, or of its business key, and the DAG that has it."""
        if delivery.is_first and not self.routes.has_keys:
            return None
        for dag_id in self.routes.dag_ids:
            if (start := self._runs.find(dag_id, delivery)) is not None:
                return start, dag_id
        return None

    def _start_run(
        self, dag_id: str, delivery: Delivery, content: Mapping[str, Any], lease: HeldLease
    ) -> Start:
        note = f"Message {quoted(delivery.id)} of the inbox {quoted(self.inbox_name)}"
        if self.origin:
            note += f", started by {self.origin}"
        try:
            return self._runs.start(dag_id, delivery, content, note)
        except TargetError as error:
            if delivery.is_last_safe:
                self._rejections.settle(Refusal(delivery, lease, dag_id, str(error)), Fault.TARGET)
            raise

    def _record(self, outcome: Start, dag_id: str, delivery: Delivery) -> None:
        if outcome is Start.STARTED:
            # An existing run shows nothing: Airflow finds it before it checks the request.
            self._rejections.blame.run_started(dag_id)
            self._unexplained += delivery.is_redelivered and delivery.id not in self._released
        else:
            self._found.add(dag_id)
        self.counts.count(outcome.value, delivery.id)
        observers.notify(outcome.value, inbox=self.inbox, conn_id=self.hook.workflow_conn_id)

    # Acknowledging

    def _finish_message(self, lease: HeldLease, message_id: str) -> None:
        """A message has its run or its dead letter, and may be acknowledged."""
        small_lease = replace(lease, deliveries=[])  # a drain may have many
        self._finished.setdefault(lease.lease_id, (small_lease, []))[1].append(message_id)
        self._finished_of[lease.lease_id] += 1

    def _acknowledge(self, hook: WorkflowHook, *, at_the_end: bool = False) -> None:
        """Acknowledge what is finished; after a failure nothing is sent until the end of the drain."""
        if self._acknowledgement_error is not None and not at_the_end:
            return
        self._acknowledgement_error = None
        for lease_id, (lease, message_ids) in list(self._finished.items()):
            try:
                lease.acknowledge(hook, message_ids)
            except WorkflowError as error:
                self._acknowledgement_error = error
                log.warning(
                    "Inbox %s: the acknowledgement of %s failed; the runs exist, and the service redelivers"
                    " unless a later acknowledgement succeeds: %s",
                    self.inbox_name,
                    counted(len(message_ids), "message"),
                    error,
                )
                if error.transient:
                    return
            else:
                del self._finished[lease_id]
