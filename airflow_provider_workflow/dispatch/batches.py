"""
Messages in batches: lease some, call a function with them, acknowledge them; until the inbox is empty.

Messages are acknowledged only after the function has returned, so each is processed at least once. As the
service delivers a message about five times, deliveries are used sparingly:

- A retry, or a task whose last DAG run failed, begins with one message, the pilot. While the function is
  broken, a try costs one delivery of one message. In a DAG run without a logical date, such as one that an
  asset started, any failed DAG run counts, as the last one is not known there.
- A message with a high delivery count is a batch of its own, so that it cannot fail others.
- A failed message is not leased again by the same task (``failed_messages.py``).
- With a dead-letter DAG, a message that may be on its last delivery is not given to the function any more:
  its process may have been killed each time.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from airflow.providers.common.compat.sdk import AirflowSkipException

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import InboxPausedError, WorkflowError
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.batch_function import BatchFunction, LeaseTooShortError
from airflow_provider_workflow.dispatch.dead_letters import DeadLetter, DeadLetterRules, DeadLetters
from airflow_provider_workflow.dispatch.failed_messages import (
    FailedMessage,
    FailedMessages,
    FailedMessagesError,
)
from airflow_provider_workflow.dispatch.lease import (
    HIGH_DELIVERY_COUNT,
    MARGIN_SECONDS,
    HeldLease,
    InboxNotActiveError,
    acknowledge,
    delivery_count,
)
from airflow_provider_workflow.dispatch.results import MOST_IDS, Counted, Counts, log_nameless
from airflow_provider_workflow.dispatch.session import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    FailedAcknowledgement,
    InboxSession,
)
from airflow_provider_workflow.dispatch.target_history import PILOT_SECONDS, Before, TargetHistory

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.runs import Runs
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)

MOST_FAILED_IN_A_ROW = 20
"""Calls that process no message. After so many the function is broken."""
MOST_FAILED_AT_FIRST = 2
"""The same before the function has processed any message in this task."""


class BatchResult(TypedDict):
    """
    The result of a task that works on batches.

    ``batches`` is the number of calls of the function, ``processed`` the messages that were acknowledged
    after it had returned, ``dead_lettered`` those that it failed for and that are dead letters now.
    """

    inbox_id: str
    batches: int
    processed: Counted
    dead_lettered: Counted


@dataclass(frozen=True)
class BatchLimits:
    """
    How much is leased.

    :param batch_size: messages per batch, 1 to 100.
    :param lease_seconds: length of a lease, 60 to 3600 s.
    :param max_batches: leases at most, without pilots; None for all messages.
    """

    batch_size: int = 100
    lease_seconds: int = 300
    max_batches: int | None = None


@dataclass
class Batches:
    """
    The batches of one task.

    :param hook: sends the calls.
    :param inbox: id or name.
    :param function: called with the messages.
    :param runs: starts the runs of dead letters.
    :param history: the results of earlier tries and DAG runs.
    :param dead_letter_rules: when messages become dead letters; None if they never do.
    :param on_dead_letter: called with each dead letter whose run was started, and the id of that run.
    :param working: whether leased messages are held at this moment.
    :param ended: raised instead of leasing, or working on, anything more; for a task that is being ended.
    """

    hook: WorkflowHook
    inbox: str
    function: BatchFunction
    runs: Runs
    limits: BatchLimits = field(default_factory=BatchLimits)
    history: TargetHistory = field(default_factory=TargetHistory)
    dead_letter_rules: DeadLetterRules | None = None
    on_dead_letter: Callable[[DeadLetter, str], None] | None = None
    working: bool = False
    ended: BaseException | None = None
    _counts: Counts = field(default_factory=Counts)
    _processed: Counted = field(default_factory=lambda: Counted(count=0, ids=[]))
    _leases: int = 0
    _failed: FailedMessages = field(init=False)
    _session: InboxSession = field(init=False)
    _pilot: bool = False
    _stopped: bool = False
    _hurried: bool = False
    _in_a_row: int = 0
    _decided: set[str] = field(default_factory=set)
    _lease_seconds: int = 0
    _fitting: int | None = None

    def run(self) -> BatchResult:
        """
        Process the messages of the inbox.

        :raises TargetError: the dead-letter DAG starts no runs, or Airflow does not answer.
        :raises FailedMessagesError: messages failed, and did not become dead letters.
        :raises LeaseTooShortError: the function took longer than the lease.
        :raises InboxNotActiveError: the inbox is paused and had no messages.
        :raises WorkflowError: the service cannot be used.
        :raises Exception: what the function raised for a batch, or for a message alone.
        """
        self._get_ready()
        try:
            with InboxSession(self.hook, self.inbox, alongside=False) as self._session:
                self._work_and_decide()
        finally:
            self._log_result()
        if self._failed.left or self._stopped:
            raise self._error()
        return {
            "inbox_id": self._session.inbox_id,
            "batches": self.function.calls,
            "processed": self._processed,
            "dead_lettered": self._counts.result["dead_lettered"],
        }

    def _error(self) -> Exception:
        left = self._failed.left
        raised = [each.error for each in left if each.error is not None]
        if raised:
            return raised[0]
        return FailedMessagesError(self.inbox, {each.message["id"]: each.cause for each in left})

    def _get_ready(self) -> None:
        rules, letters = self.dead_letter_rules, None
        if rules is not None:
            self.runs.check_target(rules.dag_id)
            where = self.inbox, self.hook.workflow_conn_id
            letters = DeadLetters(rules, self.runs, *where, self._counts, self.on_dead_letter)
        self._failed = FailedMessages(self.hook, self.inbox, letters, self._acknowledge)
        self._pilot = self.history.is_retry or self.history.before() is not Before.WORKING

    def _work_and_decide(self) -> None:
        try:
            self._lease_on()
            self._failed.decide(at_fault=True)
        except Exception:
            self._failed.decide(at_fault=False)
            self._failed.release(self._session.release)
            raise
        self._failed.release(self._session.release)

    # Leasing

    def _lease_on(self) -> None:
        while self._leases_on():
            self._raise_if_ended()
            count, self._lease_seconds = self._next_lease()
            try:
                lease = self._session.lease(count, self._lease_seconds)
            except InboxPausedError as paused:
                if not self.function.calls:
                    raise InboxNotActiveError(self.inbox, paused.paused_reason) from None
                log.warning("Inbox %s is paused: %s", plain(self.inbox), plain(paused.paused_reason))
                return
            if lease is None:
                return
            self._leases += not self._pilot
            self._work_on(lease)

    def _raise_if_ended(self) -> None:
        if self.ended is not None:
            raise self.ended

    def _leases_on(self) -> bool:
        # A message that this task left to its lease must not be leased by it again.
        in_time = clock.now() < self._failed.redelivered_at
        return in_time and not self._stopped and self._leases != self.limits.max_batches

    def _next_lease(self) -> tuple[int, int]:
        limits = self.limits
        if self._pilot:
            return 1, max(limits.lease_seconds, PILOT_SECONDS)
        return min(limits.batch_size, self._fitting or limits.batch_size), limits.lease_seconds

    def _work_on(self, lease: HeldLease) -> None:
        """Call the function for the messages of a lease, and release those that it was not called for."""
        log_nameless(self.inbox, lease, self.hook.workflow_conn_id)
        self._decided = set()
        began_at = clock.monotonic()
        try:
            self.working = True
            self._raise_if_ended()
            due = self._batches_of(lease)
            while due and not self._stopped and self._fits(lease, due[0]):
                if self._in_a_row and not self._processed["count"]:
                    # Messages with low delivery counts show best whether the function is broken.
                    due.rotate(1)
                late = self._process(lease, due.popleft())
                if late:
                    took, asked = clock.monotonic() - began_at, (self._lease_seconds, self.limits.batch_size)
                    raise LeaseTooShortError(self.inbox, len(lease.messages), took, *asked)
            self._release_undecided(lease)
            self.working = False
        except BaseException as error:
            # execution_timeout and on_kill end a task with exceptions that are no errors.
            self.working = False
            if not isinstance(error, Exception):
                self._hurry()
            self._release_undecided(lease)
            raise

    def _batches_of(self, lease: HeldLease) -> deque[list[types.LeasedMessage]]:
        """
        What the function is called with: first each message with a high delivery count, then the others.

        A message that is a dead letter is acknowledged.
        """
        messages = lease.highest_delivery_count_first()
        dead = [each["id"] for each in messages if self._failed.is_dead(each, lease)]
        self._acknowledge(lease, dead)
        live = [each for each in messages if each["id"] not in dead]
        alone = [each for each in live if delivery_count(each) >= HIGH_DELIVERY_COUNT]
        others, size = live[len(alone) :], self.limits.batch_size
        if not alone:
            self._fitting = None
        batches = (others[start : start + size] for start in range(0, len(others), size))
        return deque([*([each] for each in alone), *batches])

    def _fits(self, lease: HeldLease, messages: list[types.LeasedMessage]) -> bool:
        """Whether the lease lasts for one more call. If not, the next lease has as many messages as fit."""
        longest = self.function.longest(len(messages)) if self._decided else 0.0
        if lease.seconds_left() > longest:
            return True
        left = len(lease.messages) - len(self._decided)
        log.warning(
            "Inbox %s: %d of %d leased messages were not processed before the %g s safety margin at the end"
            " of their lease; they are released",
            plain(self.inbox),
            left,
            len(lease.messages),
            MARGIN_SECONDS,
        )
        if len(messages) == 1 and longest:
            self._fitting = max(1, int((self.limits.lease_seconds - MARGIN_SECONDS) // longest))
        return False

    def _release_undecided(self, lease: HeldLease) -> None:
        ids = [each["id"] for each in lease.messages if each["id"] not in self._decided]
        if ids:
            self._session.release(lease, ids)

    # Processing

    def _process(self, lease: HeldLease, messages: list[types.LeasedMessage]) -> bool:
        """
        Call the function, acknowledge what it processed, and decide about the rest.

        :return: whether the function returned too late.
        """
        whole = {each["id"]: self._failed.whole(each) for each in messages}
        try:
            causes, error = self.function.call(messages)
        except BaseException as raised:
            if not isinstance(raised, Exception) or isinstance(raised, AirflowSkipException):
                self._leave_last_deliveries(messages)
            raise
        late = lease.seconds_left() <= 0
        done = [message_id for message_id in whole if message_id not in causes]
        self._decided.update(whole)
        self._acknowledge(lease, done)
        for message_id in done:
            _count(self._processed, message_id)
        failed = [FailedMessage(whole[each], lease, cause, error) for each, cause in causes.items()]
        self._conclude(failed, processed=bool(done))
        return late

    def _leave_last_deliveries(self, messages: list[types.LeasedMessage]) -> None:
        """Leave a message with a high delivery count to its lease: released, it would be leased at once."""
        self._decided.update(each["id"] for each in messages if delivery_count(each) >= HIGH_DELIVERY_COUNT)

    def _conclude(self, failed: list[FailedMessage], *, processed: bool) -> None:
        """
        Decide about failed messages, and whether the function is broken.

        :param processed: whether other messages of the batch were processed.
        """
        pilot = self._pilot
        if processed:
            self._in_a_row, self._pilot = 0, False
            self._failed.decide(at_fault=True)
        before = len(self._failed.left)
        for each in failed:
            unproven = self._processed["count"] == 0 and not pilot
            self._failed.add(each, wait=each.error is not None and unproven)
        if processed:
            return
        self._in_a_row += 1
        is_left = len(self._failed.left) > before
        most = MOST_FAILED_IN_A_ROW if self._processed["count"] else MOST_FAILED_AT_FIRST
        if self._in_a_row >= most or (is_left and (pilot or len(failed) > 1)):
            self._stopped = True
            self._failed.decide(at_fault=False)

    # Acknowledging

    def _acknowledge(self, lease: HeldLease, ids: list[str]) -> None:
        """
        Acknowledge messages, again and again until their lease ends.

        :raises WorkflowError: that failed; the messages are redelivered.
        """
        self._decided.update(ids)
        try:
            if ids:
                self._acknowledge_in_time(lease, ids)
        except Exception:
            raise
        except BaseException:
            # The task is being ended, and the work is done.
            self._hurry()
            try:
                acknowledge(self._session.hook, lease.inbox_id, lease.lease_id, ids, self.inbox)
            except WorkflowError as error:
                log.warning("Inbox %s: %d messages are redelivered (%s)", plain(self.inbox), len(ids), error)
            raise

    def _hurry(self) -> None:
        if not self._hurried:
            self._hurried = True
            self._session.hurry()

    def _acknowledge_in_time(self, lease: HeldLease, ids: list[str]) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                acknowledge(self._session.hook, lease.inbox_id, lease.lease_id, ids, self.inbox)
                return
            except WorkflowError as error:
                transient = FailedAcknowledgement(lease, ids, error).is_transient
                if not transient or clock.now() + pause >= lease.ends_at:
                    raise
                log.warning(
                    "Inbox %s: an acknowledgement failed, and is sent again until the lease ends: %s",
                    plain(self.inbox),
                    error,
                )
            clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _log_result(self) -> None:
        dead = self._counts.result["dead_lettered"]["count"]
        log.info(
            "Inbox %s: processed %d messages in %d batches; %d messages failed, %d are dead letters now",
            plain(self.inbox),
            self._processed["count"],
            self.function.calls,
            len(self._failed.left),
            dead,
        )


def _count(counted: Counted, message_id: str) -> None:
    counted["count"] += 1
    if len(counted["ids"]) < MOST_IDS:
        counted["ids"].append(plain(message_id))
