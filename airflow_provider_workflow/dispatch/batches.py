"""
Messages in batches: lease some, call a function with them, acknowledge them; until the inbox is empty.

Messages are acknowledged only after the function has returned, so each is processed at least once. Any
message may end the process, and must not use up the deliveries of sound ones:

- Until the function has processed a message, leases have one. Then they grow (:mod:`.lease_size`).
- Messages share a call only if no earlier delivery may have called the function. Of the others, a lease
  calls one, alone, and releases the rest.
- A message for which the function fails alone keeps its lease. A batch for which it raises is released.
- With a dead-letter DAG a message on its fourth delivery becomes a dead letter without a call; on its
  fifth, if this task released it without one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock, observers
from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.batch_outcomes import BatchError, BatchResult, Outcomes
from airflow_provider_workflow.dispatch.blame import Fault, Reason
from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules, DeadLetters
from airflow_provider_workflow.dispatch.delivery import LAST_SAFE_DELIVERY, Delivery
from airflow_provider_workflow.dispatch.holding import TaskLife, holding
from airflow_provider_workflow.dispatch.lease import MARGIN_SECONDS, HeldLease, lease_once
from airflow_provider_workflow.dispatch.lease_size import LeaseSize
from airflow_provider_workflow.dispatch.payload_store import PayloadStore
from airflow_provider_workflow.dispatch.quarantine import check_quarantine
from airflow_provider_workflow.dispatch.runs import MessageRuns, Runs
from airflow_provider_workflow.limits import PROBE_SECONDS, Limits
from airflow_provider_workflow.source import SourceError
from airflow_provider_workflow.text import counted

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

PAUSE_SECONDS = 15.0
"""Pause before a failed acknowledgement is repeated."""
LAST_CALL = LAST_SAFE_DELIVERY - 1
"""The last delivery on which the function is still called: on the next one it may be too late."""
UNKNOWN_END = "its earlier deliveries ended without a result: the function failed, or its process was killed"


@dataclass
class Batches:
    """
    The batches of one task.

    :param hook: sends the calls.
    :param inbox: id or name.
    :param work: calls the function with messages; returns the ids of those that failed, with the causes.
    :param runs: starts the runs of dead letters.
    :param limits: how much is leased at a time, and in all: by default until the inbox is empty.
    :param attempt: try of the task, 1 or more.
    :param dead_letter_rules: when messages become dead letters; None if they never do.
    :param store: for the payloads of dead letters that are not in the confs of their runs; None if all are.
    :param task: whether the task was killed.
    """

    hook: WorkflowHook
    inbox: str
    work: Callable[[list[dict[str, Any]]], Mapping[str, str]]
    runs: Runs
    limits: Limits = field(default_factory=Limits)
    attempt: int = 1
    dead_letter_rules: DeadLetterRules | None = None
    store: PayloadStore | None = None
    task: TaskLife = field(default_factory=TaskLife)
    _outcomes: Outcomes = field(init=False)
    _dead_letters: DeadLetters | None = field(init=False)
    _leased: int = 0
    _size: LeaseSize = field(init=False)
    _processed: set[str] = field(default_factory=set)
    """Ids of the messages of a lease that the function processed."""
    _released: set[str] = field(default_factory=set)
    """Ids of the messages of a lease that were released."""
    _postponed: set[str] = field(default_factory=set)
    _finished: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        rules = self.dead_letter_rules
        self._outcomes = Outcomes(self.inbox, self.hook.workflow_conn_id, self.attempt)
        self._size = LeaseSize(self.limits.lease_limit, self.attempt)
        runs = MessageRuns(self.runs, self.hook.workflow_conn_id, store=self.store)
        self._dead_letters = DeadLetters(rules, runs, self.inbox, self._outcomes.counts) if rules else None

    def run(self) -> BatchResult:
        """
        Process the messages of the inbox.

        :raises TargetError: the dead-letter DAG is missing, or Airflow does not answer.
        :raises BatchError: messages failed and are no dead letters, the function took longer than the lease,
            or a retry found only messages that are leased.
        :raises PayloadStoreError: the payloads of dead letters cannot be written now.
        :raises SourceError: the inbox had no messages, and no events arrive in it.
        :raises WorkflowError: the service cannot be used.
        :raises Exception: what the function raised.
        """
        inbox_id = self.hook.inbox_id(self.inbox)
        if self.dead_letter_rules is not None:
            self.runs.check_target(self.dead_letter_rules.dag_id, "dead_letter_dag_id")
            if self.store is not None:
                self.store.check()
        try:
            self._drain(inbox_id)
        finally:
            self._outcomes.log_summary()
        return self._outcomes.result(inbox_id)

    # Leasing

    def _drain(self, inbox_id: str) -> None:
        """Work on one lease after the other, until the inbox is empty."""
        limits, most = self.limits, self.limits.max_messages
        while not self._outcomes.may_be_broken and (most is None or most > self._leased):
            self.task.check()
            if self._dead_letters is not None and self._dead_letters.store_error is not None:
                raise self._dead_letters.store_error
            count = self._size.next if self._has_processed else 1
            if most is not None:
                count = min(count, most - self._leased)
            seconds = limits.lease_seconds
            # While the function is broken, a try costs a message at most one delivery per hour.
            if self.attempt > 1 and not self._has_processed:
                seconds = max(seconds, PROBE_SECONDS)
            try:
                lease = lease_once(self.hook, inbox_id, count, seconds)
            except SourceError as error:
                if not self._outcomes.calls and not error.problem.is_wanted:
                    check_quarantine(self.hook, inbox_id)
                    raise
                log.warning("%s", error)
                lease = None
            if lease is None:
                check_quarantine(self.hook, inbox_id)
                self._check_that_nothing_is_leased(inbox_id)
                return
            self._leased += len(lease.deliveries)
            unexplained = {delivery.id for delivery in lease.deliveries if self._calls(delivery) > 1}
            self._work_on(lease)
            decided = set(lease.message_ids) - self._released
            # One that failed again, or is a dead letter, explains itself; one that was released does not.
            is_explained = unexplained.isdisjoint(self._processed | self._released)
            self._size.add_lease(count, len(decided), is_explained=is_explained)

    @property
    def _has_processed(self) -> bool:
        return self._outcomes.processed["count"] > 0

    def _check_that_nothing_is_leased(self, inbox_id: str) -> None:
        """
        Fail a retry that finds nothing available while messages are leased.

        A try that failed for a message, or was killed, still holds it: if its retry succeeded, the task would
        forget it.
        """
        if self.attempt == 1 or self._outcomes.failed:
            return
        messages = self.hook.list_messages(inbox_id)
        leased = sum(message.get("status") == "leased" for message in messages)
        if leased:
            raise BatchError(
                self._outcomes.inbox_name,
                f"no message is available, with {counted(leased, 'message')} still leased: an earlier try of"
                " this task failed (its log has the cause) or was killed, or another task has leased them."
                " They are redelivered when their leases expire; a retry of this task processes them",
            )

    # Calling

    def _work_on(self, lease: HeldLease) -> None:
        """Process the messages of a lease, and release those that the function was not called for."""
        self._finished, self._processed, self._released = [], set(), set()
        with holding(lease, self.hook, self.task, partial(self._acknowledge_once, lease)) as uncalled:
            took = 0.0
            for batch in self._batches_of(lease, uncalled):
                # The next call may take as long as the last one; what cannot wait needs no margin.
                needed = took - MARGIN_SECONDS if batch[0].count >= LAST_CALL else took
                if lease.seconds_left() > needed and not self._outcomes.may_be_broken:
                    took = self._call(lease, batch, uncalled)
            self._released.update(uncalled)
            self._postponed.update(uncalled)

    def _batches_of(self, lease: HeldLease, uncalled: dict[str, Delivery]) -> list[list[Delivery]]:
        """What the function is called with; dead letters are acknowledged, and what must wait is released."""
        deliveries: list[Delivery] = []
        for delivery in lease.deliveries:
            if self._is_dead(delivery, lease):
                uncalled.pop(delivery.id, None)
            else:
                deliveries.append(delivery)
        self._acknowledge(lease)
        shared = [delivery for delivery in deliveries if self._calls(delivery) <= 1]
        alone = [delivery for delivery in deliveries if self._calls(delivery) > 1]
        if alone and alone[0].count % 2 == 0:
            # Alternate the order, so that a message that kills the process does not always come first.
            alone.reverse()
            alone.sort(key=lambda delivery: delivery.count, reverse=True)
        # The others have no spare delivery, so they are not postponed.
        postponed = {delivery.id for delivery in alone[1:] if delivery.count < LAST_CALL}
        self._postpone(lease, postponed, uncalled)
        batches = [[delivery] for delivery in alone if delivery.id not in postponed]
        return [*batches, shared] if shared else batches

    def _postpone(
        self, lease: HeldLease, message_ids: Collection[str], uncalled: dict[str, Delivery]
    ) -> None:
        """Release messages before the function is called for others."""
        for message_id in message_ids:
            uncalled.pop(message_id, None)
        self._released.update(message_ids)
        self._postponed.update(message_ids)
        lease.release(self.hook, list(message_ids))

    def _call(self, lease: HeldLease, batch: list[Delivery], uncalled: dict[str, Delivery]) -> float:
        """
        Call the function, acknowledge what it processed, and decide about the others.

        :return: the seconds that it took.
        :raises BatchError: it took longer than a lease.
        """
        began_at = clock.monotonic()
        causes, error = self._causes(batch, uncalled)
        took, is_late = clock.monotonic() - began_at, lease.seconds_left() <= 0
        for delivery in batch:
            uncalled.pop(delivery.id, None)
        self._finished = [delivery.id for delivery in batch if delivery.id not in causes]
        self._processed.update(self._finished)
        self._outcomes.add_call(self._finished, len(causes))
        self._acknowledge(lease)
        for delivery in batch:
            if (cause := causes.get(delivery.id)) is not None:
                self._settle_failed(lease, delivery, cause, error)
        longest = self.limits.lease_seconds - MARGIN_SECONDS
        if is_late and took >= longest:
            raise BatchError(
                self._outcomes.inbox_name,
                f"the function took {took:.0f} s for {counted(len(batch), 'message')}, and all calls of a"
                f" lease may take {longest:.0f} s. Messages that were not acknowledged in time are"
                f" redelivered. Increase lease_seconds (now {self.limits.lease_seconds}, up to 3600), or"
                f" decrease batch_size (now {self.limits.lease_limit})",
            )
        return took

    def _causes(
        self, batch: list[Delivery], uncalled: dict[str, Delivery]
    ) -> tuple[Mapping[str, str], Exception | None]:
        """
        Call the function.

        :return: the causes of the failed messages by id, and what it raised for a message that is alone.
        :raises Exception: what it raised for several messages.
        """
        ids = [delivery.id for delivery in batch]
        source = {"inbox": self.inbox, "conn_id": self.hook.workflow_conn_id}
        try:
            with observers.attempt("process", **source, message_ids=ids, facts={}):
                return self.work([_copy_of(delivery) for delivery in batch]), None
        except Exception as error:
            if len(batch) > 1:
                raise
            # Not the text of any other error, which may quote the payload.
            cause = str(error) if isinstance(error, BatchError) else type(error).__name__
            return {ids[0]: f"the function raised {cause}"}, error
        except BaseException:
            if len(batch) == 1 and batch[0].count >= LAST_CALL:
                # Released, it would be leased again at once, and soon for the last time.
                uncalled.pop(ids[0], None)
            raise

    # Dead letters

    def _is_dead(self, delivery: Delivery, lease: HeldLease) -> bool:
        """
        Whether a message is a dead letter, since an earlier delivery or now.

        :raises TargetError: Airflow does not answer.
        """
        is_last = self._calls(delivery) >= LAST_SAFE_DELIVERY
        if self._dead_letters is None or not (
            self._dead_letters.is_found(delivery)
            or (is_last and self._start_dead_letter(delivery, lease, UNKNOWN_END))
        ):
            return False
        self._finish(delivery.id)
        return True

    def _finish(self, message_id: str) -> None:
        """Let a dead letter be acknowledged, and not fail the task."""
        self._outcomes.failed.pop(message_id, None)
        self._finished.append(message_id)

    def _start_dead_letter(self, delivery: Delivery, lease: HeldLease, cause: str) -> bool:
        """Start the run of a dead letter, unless another process may soon work on the message."""
        if self._dead_letters is None or lease.seconds_left() <= 0:
            return False
        return self._dead_letters.start(delivery, None, Reason.FAILED, cause)

    def _settle_failed(
        self, lease: HeldLease, delivery: Delivery, cause: str, error: Exception | None
    ) -> None:
        """Make a dead letter of a failed message, or leave it to its lease."""
        observers.notify("rejected", inbox=self.inbox, conn_id=self.hook.workflow_conn_id)
        # A function that raises before it has processed any message may be broken for all; then a dead letter
        # on the last safe delivery comes before the call.
        is_at_fault = error is None or self._has_processed
        rules = self.dead_letter_rules
        is_due = rules is not None and is_at_fault and rules.is_due(delivery, Fault.MESSAGE)
        if is_due and self._start_dead_letter(delivery, lease, cause):
            self._finish(delivery.id)
            self._acknowledge(lease)
        else:
            self._outcomes.add_failed(delivery, cause, error)

    # Acknowledging and releasing

    def _acknowledge(self, lease: HeldLease) -> None:
        """
        Acknowledge what is finished, again and again until the lease ends.

        :raises WorkflowError: that failed; the messages are redelivered, and the function is called again.
        """
        while self._finished:
            try:
                lease.acknowledge(self.hook, self._finished)
                self._finished = []
            except WorkflowError as error:
                if not error.transient or clock.now() + PAUSE_SECONDS >= lease.ends_at:
                    raise
                name = self._outcomes.inbox_name
                log.warning("Inbox %s: an acknowledgement failed, and is repeated: %s", name, error)
                clock.sleep(PAUSE_SECONDS)

    def _acknowledge_once(self, lease: HeldLease, hook: WorkflowHook) -> None:
        """:raises WorkflowError: the call failed."""
        if self._finished:
            lease.acknowledge(hook, self._finished)

    def _calls(self, delivery: Delivery) -> int:
        """The deliveries of a message that may have called the function: not those that were released."""
        return delivery.count - (delivery.id in self._postponed)


def _copy_of(delivery: Delivery) -> dict[str, Any]:
    """
    A message as the function gets it.

    The function may change it: a dead letter has the message as it was leased.
    """
    copy: dict[str, Any] = tolerant_json.decode(tolerant_json.dumped(delivery.message))
    return copy
