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
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock, observers, types
from airflow_provider_workflow.client import any_json
from airflow_provider_workflow.client.errors import InboxPausedError, WorkflowError
from airflow_provider_workflow.client.wire import counted, plain
from airflow_provider_workflow.dispatch.batch_outcomes import BatchError, BatchResult, Outcomes
from airflow_provider_workflow.dispatch.dead_letters import (
    LAST_SAFE_DELIVERY,
    DeadLetterRules,
    DeadLetters,
    Reason,
)
from airflow_provider_workflow.dispatch.lease import (
    MARGIN_SECONDS,
    HeldLease,
    deliveries,
    lease_once,
    without_lease,
)
from airflow_provider_workflow.dispatch.lease_size import LeaseSize
from airflow_provider_workflow.dispatch.run_errors import InboxNotActiveError
from airflow_provider_workflow.dispatch.runs import InboxRuns, Runs
from airflow_provider_workflow.options import PROBE_SECONDS, Limits

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

PAUSE_SECONDS = 15.0
"""Pause before a failed acknowledgement is repeated."""
LAST_CALL = LAST_SAFE_DELIVERY - 1
"""On this delivery the function is called: on the next one it may be too late."""
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
    :param working: whether leased messages are held at this moment.
    :param ended: raised instead of leasing or working; for a task that is being ended.
    """

    hook: WorkflowHook
    inbox: str
    work: Callable[[list[dict[str, Any]]], Mapping[str, str]]
    runs: Runs
    limits: Limits = field(default_factory=Limits)
    attempt: int = 1
    dead_letter_rules: DeadLetterRules | None = None
    working: bool = False
    ended: BaseException | None = None
    _inbox_id: str = ""
    _outcomes: Outcomes = field(init=False)
    _letters: DeadLetters | None = None
    _leased: int = 0
    _size: LeaseSize = field(init=False)
    _processed: set[str] = field(default_factory=set)
    """Ids of the messages of a lease that the function processed."""
    _released: set[str] = field(default_factory=set)
    """Ids of the messages of a lease that were released."""
    _uncalled: set[str] = field(default_factory=set)
    _postponed: set[str] = field(default_factory=set)
    _finished: list[str] = field(default_factory=list)

    def run(self) -> BatchResult:
        """
        Process the messages of the inbox.

        :raises TargetError: the dead-letter DAG is missing, or Airflow does not answer.
        :raises BatchError: messages failed and are no dead letters, the function took longer than the lease,
            or a retry found only messages that are leased.
        :raises InboxNotActiveError: the inbox is paused and had no messages.
        :raises WorkflowError: the service cannot be used.
        :raises Exception: what the function raised.
        """
        self._outcomes = Outcomes(self.inbox, self.attempt)
        self._size = LeaseSize(self.limits.lease_limit, self.attempt)
        self._inbox_id = self.hook.get_inbox(self.inbox)["id"]
        if (rules := self.dead_letter_rules) is not None:
            self.runs.check_target(rules.dag_id, "dead_letter_dag_id")
            runs = InboxRuns(self.runs, self.hook.workflow_conn_id, self._inbox_id)
            self._letters = DeadLetters(rules, runs, self.inbox, self._outcomes.counts)
        try:
            self._drain()
        finally:
            self._outcomes.log_summary()
        return self._outcomes.result(self._inbox_id)

    # Leasing

    def _drain(self) -> None:
        """Work on one lease after the other, until the inbox is empty."""
        limits, most = self.limits, self.limits.max_messages
        while not self._outcomes.may_be_broken and (most is None or most > self._leased):
            if self.ended is not None:
                raise self.ended
            count = self._size.next if self._has_processed else 1
            if most is not None:
                count = min(count, most - self._leased)
            seconds = limits.lease_seconds
            # While the function is broken, a try costs a message at most one delivery per hour.
            if self.attempt > 1 and not self._has_processed:
                seconds = max(seconds, PROBE_SECONDS)
            try:
                lease = lease_once(self.hook, self._inbox_id, count, seconds)
            except InboxPausedError as paused:
                if not self._outcomes.calls and paused.paused_reason != types.BY_USER:
                    conn_id = self.hook.workflow_conn_id
                    raise InboxNotActiveError(self.inbox, paused.paused_reason, conn_id) from None
                log.warning("Inbox %s is paused: %s", plain(self.inbox), plain(paused.paused_reason))
                lease = None
            if lease is None:
                self._check_that_nothing_is_leased()
                return
            self._leased += len(lease.messages)
            unexplained = {message["id"] for message in lease.messages if self._calls(message) > 1}
            self._work_on(lease)
            decided = set(lease.message_ids) - self._released
            # One that failed again, or is a dead letter, explains itself; one that was released does not.
            is_explained = unexplained.isdisjoint(self._processed | self._released)
            self._size.add_lease(count, len(decided), is_explained=is_explained)

    @property
    def _has_processed(self) -> bool:
        return self._outcomes.processed["count"] > 0

    def _check_that_nothing_is_leased(self) -> None:
        """
        Fail a retry that finds nothing available while messages are leased.

        A try that failed for a message, or was killed, still holds it: if its retry succeeded, the task would
        forget it.
        """
        if self.attempt == 1 or self._outcomes.failed:
            return
        messages = self.hook.list_messages(self._inbox_id)
        leased = sum(message.get("status") == "leased" for message in messages)
        if leased:
            raise BatchError(
                self.inbox,
                f"no message is available, with {counted(leased, 'message')} still leased: an earlier try of"
                " this task failed (its log has the cause) or was killed, or another task has leased them."
                " They are redelivered when their leases expire; a retry of this task processes them",
            )

    # Calling

    def _work_on(self, lease: HeldLease) -> None:
        """Process the messages of a lease, and release those that the function was not called for."""
        self._uncalled, self._finished = set(lease.message_ids), []
        self._processed, self._released = set(), set()
        try:
            self.working = True
            if self.ended is not None:
                raise self.ended
            took = 0.0
            for batch in self._batches_of(lease):
                # The next call may take as long as the last one; what cannot wait needs no margin.
                needed = took - MARGIN_SECONDS if deliveries(batch[0]) >= LAST_CALL else took
                if lease.seconds_left() > needed and not self._outcomes.may_be_broken:
                    took = self._call(lease, batch)
            self.working = False
        except BaseException as error:
            self.working = False
            if isinstance(error, Exception):
                self._release(lease, self._uncalled)
            else:
                # execution_timeout or on_kill ends the task: two short calls, each sent once.
                with closing(self.hook.hurried()) as self.hook:
                    if self._finished:
                        with suppress(WorkflowError):
                            lease.acknowledge(self.hook, self._finished)
                    self._release(lease, self._uncalled)
            raise
        self._release(lease, self._uncalled)

    def _batches_of(self, lease: HeldLease) -> list[list[types.LeasedMessage]]:
        """What the function is called with; dead letters are acknowledged, and what must wait is released."""
        messages = [message for message in lease.messages if not self._is_dead(message, lease)]
        self._acknowledge(lease)
        shared = [message for message in messages if self._calls(message) <= 1]
        alone = [message for message in messages if self._calls(message) > 1]
        if alone and deliveries(alone[0]) % 2 == 0:
            # Of messages that stay together, one that ends the process is not always before the others.
            alone.reverse()
            alone.sort(key=deliveries, reverse=True)
        # For the others it is too late after their next delivery.
        postponed = {message["id"] for message in alone[1:] if deliveries(message) < LAST_CALL}
        self._release(lease, postponed)
        batches = [[message] for message in alone if message["id"] not in postponed]
        return [*batches, shared] if shared else batches

    def _call(self, lease: HeldLease, batch: list[types.LeasedMessage]) -> float:
        """
        Call the function, acknowledge what it processed, and decide about the rest.

        :return: the seconds that it took.
        :raises BatchError: it took longer than a lease.
        """
        began_at = clock.monotonic()
        causes, error = self._causes(batch)
        took, is_late = clock.monotonic() - began_at, lease.seconds_left() <= 0
        self._uncalled.difference_update(message["id"] for message in batch)
        self._finished = [message["id"] for message in batch if message["id"] not in causes]
        self._processed.update(self._finished)
        self._outcomes.add_call(self._finished, len(causes))
        self._acknowledge(lease)
        for message in batch:
            if (cause := causes.get(message["id"])) is not None:
                self._settle_failed(lease, message, cause, error)
        longest = self.limits.lease_seconds - MARGIN_SECONDS
        if is_late and took >= longest:
            raise BatchError(
                self.inbox,
                f"the function took {took:.0f} s for {counted(len(batch), 'message')}, and all calls of a"
                f" lease may take {longest:.0f} s. Messages that were not acknowledged in time are"
                f" redelivered. Increase lease_seconds (now {self.limits.lease_seconds}, up to 3600), or"
                f" decrease batch_size (now {self.limits.lease_limit})",
            )
        return took

    def _causes(self, batch: list[types.LeasedMessage]) -> tuple[Mapping[str, str], Exception | None]:
        """
        Call the function.

        :return: the causes of the failed messages by id, and what it raised for a message that is alone.
        :raises Exception: what it raised for several messages.
        """
        ids = [message["id"] for message in batch]
        source = {"inbox": self.inbox, "conn_id": self.hook.workflow_conn_id}
        try:
            with observers.attempt("process", **source, message_ids=ids, facts={}):
                return self.work([_copy_of(message) for message in batch]), None
        except Exception as error:
            if len(batch) > 1:
                raise
            # Not the text of any other error, which may quote the payload.
            cause = str(error) if isinstance(error, BatchError) else type(error).__name__
            return {ids[0]: f"the function raised {cause}"}, error
        except BaseException:
            if len(batch) == 1 and deliveries(batch[0]) >= LAST_CALL:
                # Released, it would be leased again at once, and soon for the last time.
                self._uncalled.discard(ids[0])
            raise

    # Dead letters

    def _is_dead(self, message: types.LeasedMessage, lease: HeldLease) -> bool:
        """
        Whether a message is a dead letter, since an earlier delivery or now.

        :raises TargetError: Airflow does not answer.
        """
        is_last = self._calls(message) >= LAST_SAFE_DELIVERY
        if self._letters is None or not (
            self._letters.is_found(message)
            or (is_last and self._start_dead_letter(message, lease, UNKNOWN_END))
        ):
            return False
        self._uncalled.discard(message["id"])
        self._finish(message["id"])
        return True

    def _finish(self, message_id: str) -> None:
        """Let a dead letter be acknowledged, and not fail the task."""
        self._outcomes.failed.pop(message_id, None)
        self._finished.append(message_id)

    def _start_dead_letter(self, message: types.LeasedMessage, lease: HeldLease, cause: str) -> bool:
        """Start the run of a dead letter, unless another process may soon work on the message."""
        if self._letters is None or lease.seconds_left() <= 0:
            return False
        return self._letters.start(message, None, Reason.FAILED, cause)

    def _settle_failed(
        self,
        lease: HeldLease,
        message: types.LeasedMessage,
        cause: str,
        error: Exception | None,
    ) -> None:
        """Make a dead letter of a failed message, or leave it to its lease."""
        observers.tell("rejected", inbox=self.inbox, conn_id=self.hook.workflow_conn_id)
        # A function that raises before it has processed any message may be broken for all.
        is_at_fault = error is None or self._has_processed
        is_due = self._letters is not None and self._letters.is_due(message)
        if is_at_fault and is_due and self._start_dead_letter(message, lease, cause):
            self._finish(message["id"])
            self._acknowledge(lease)
        else:
            self._outcomes.add_failed(message, cause, error)

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
                log.warning("Inbox %s: an acknowledgement failed, and is repeated: %s", self.inbox, error)
                clock.sleep(PAUSE_SECONDS)

    def _calls(self, message: types.LeasedMessage) -> int:
        """The deliveries of a message that may have called the function: not those that were released."""
        return deliveries(message) - (message["id"] in self._postponed)

    def _release(self, lease: HeldLease, message_ids: Collection[str]) -> None:
        ids = list(message_ids)
        self._uncalled.difference_update(ids)
        self._postponed.update(ids)
        self._released.update(ids)
        lease.release(self.hook, ids)


def _copy_of(message: types.LeasedMessage) -> dict[str, Any]:
    """
    A message as the function gets it: nothing of its lease.

    The function may change it: a dead letter has the message as it was leased.
    """
    copy: dict[str, Any] = any_json.decode(any_json.dumped(without_lease(message)))
    return copy
