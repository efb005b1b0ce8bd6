"""
Messages whose runs were rejected in one drain, and whose fault each rejection is.

A message that no route takes, does not fit the schema or cannot be stored is at fault itself. Any
other rejection is the message's fault if the drain starts a run of the same target after it, or
shortly before it, and otherwise the target's.

A message at fault becomes a dead letter, from ``dead_letter_after`` deliveries on. What is the
target's becomes one only if the service would soon quarantine it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_workflow import observers, types
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.dead_letters import (
    LAST_SAFE_DELIVERY,
    DeadLetters,
    Reason,
    is_on_last_safe_delivery,
)
from airflow_provider_workflow.dispatch.lease import HeldLease, deliveries
from airflow_provider_workflow.dispatch.results import Counts
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.options import PROBE_SECONDS

log = logging.getLogger(__name__)

MOST_IN_A_ROW = 20
"""After so many rejections in a row a target that worked may be broken now."""
MOST_PROBES = 128
UNDECIDED = "its earlier deliveries ended without a decision; it may kill the process that works on it"
REDELIVERED_PROBES = 32
"""From the second try on, so many redelivered messages do not count as probes."""


@dataclass(frozen=True)
class Rejection:
    """
    A leased message that starts no run.

    :param dag_id: the DAG that rejected it; None if no route takes it.
    :param cause: why, without any value of the message.
    """

    message: types.LeasedMessage
    lease: HeldLease
    dag_id: str | None
    cause: str


@dataclass
class Rejections:
    """
    The rejected messages of a drain.

    :param inbox: id or name.
    :param conn_id: id of the Airflow connection.
    :param counts: where the messages are counted.
    :param dead_letters: starts their runs; without it no message becomes a dead letter.
    :param finish: called with a lease and the id of a message that is a dead letter now.
    :param started: targets of which this drain has started a run.
    """

    inbox: str
    conn_id: str
    counts: Counts
    dead_letters: DeadLetters | None
    finish: Callable[[HeldLease, str], None]
    started: set[str]
    _undecided: dict[str | None, list[Rejection]] = field(default_factory=dict)
    """By target, since its last run."""
    _at_fault: list[Rejection] = field(default_factory=list)
    _in_a_row: Counter[str | None] = field(default_factory=Counter)
    _new_in_a_row: Counter[str | None] = field(default_factory=Counter)
    _unmatched_level: int = logging.INFO

    def probes_left(self, attempt: int) -> int:
        """
        Rejections still allowed from targets of which this drain has started no run.

        :param attempt: try of the task, 1 or more.
        """
        targets = self._undecided.keys() - self.started
        unproven = [rejection for dag_id in targets for rejection in self._undecided[dag_id]]
        redelivered = sum(deliveries(rejection.message) > 1 for rejection in unproven)
        counted = len(unproven) - (redelivered if attempt > 1 else 0)
        probes = probes_of(attempt)
        return min(probes - counted, max(probes, REDELIVERED_PROBES) - len(unproven))

    def start(self, dag_id: str) -> None:
        """A run of a target was started: the messages that it rejected before are at fault."""
        self.started.add(dag_id)
        self._at_fault += self._undecided.pop(dag_id, [])
        del self._in_a_row[dag_id], self._new_in_a_row[dag_id]

    def reject(self, rejection: Rejection) -> None:
        """
        A target rejected a message; ``decide`` says whose fault it is.

        :raises TargetError: the target rejected so many new messages in a row that it must
            have broken. Redelivered ones do not count, as they
            may have been rejected before.
        """
        dag_id = rejection.dag_id
        self._in_a_row[dag_id] += 1
        self._new_in_a_row[dag_id] += deliveries(rejection.message) == 1
        if dag_id in self.started and self._in_a_row[dag_id] > MOST_IN_A_ROW:
            # Not held back until the next run, as there may be thousands.
            self.blame_target(rejection)
        else:
            self._undecided.setdefault(dag_id, []).append(rejection)
        if dag_id in self.started and self._new_in_a_row[dag_id] >= MOST_IN_A_ROW:
            self.started.discard(dag_id)
            raise TargetError(
                f"{MOST_IN_A_ROW} new messages were rejected in a row for the DAG {dag_id!r}, the last one"
                f" with: {rejection.cause}. No message is lost."
            )

    def decide(self, *, at_the_end: bool = False) -> list[Rejection]:
        """
        Decide about rejections before the last run of their target.

        At the end of the drain decide about all.

        :return: those that are the fault of a target that has started no run.
        """
        at_fault, self._at_fault = self._at_fault, []
        undecided, self._undecided = self._undecided, {}
        of_targets: list[Rejection] = []
        for dag_id, rejections in undecided.items():
            is_proven = dag_id in self.started
            is_sure = at_the_end and self._in_a_row[dag_id] < MOST_IN_A_ROW
            for rejection in rejections:
                if is_proven and (is_sure or is_on_last_safe_delivery(rejection.message)):
                    at_fault.append(rejection)
                elif at_the_end:
                    self.blame_target(rejection)
                    of_targets.append(rejection)
                else:
                    self._undecided.setdefault(dag_id, []).append(rejection)
        for rejection in at_fault:
            self.blame_message(rejection)
        return [rejection for rejection in of_targets if rejection.dag_id not in self.started]

    def blame_message(self, rejection: Rejection, reason: Reason = Reason.REJECTED) -> None:
        """A message is at fault itself."""
        is_due = self.dead_letters is not None and self.dead_letters.is_due(rejection.message)
        if not (is_due and self._try_dead_letter(rejection, reason)):
            self._leave(rejection)

    def blame_target(self, rejection: Rejection) -> None:
        """The target is at fault, so that the message may be sound."""
        is_due = is_on_last_safe_delivery(rejection.message)
        if not (is_due and self._try_dead_letter(rejection, Reason.TARGET)):
            self._leave(rejection)

    def is_undecided(self, message: types.LeasedMessage) -> bool:
        """
        Whether earlier deliveries of a message ended without a decision, so that its dead letter comes first.

        The fourth delivery is still tried, as a target that was broken may be correct by then. The fifth is
        the last one, and the message may kill the process that tries it.
        """
        return self.dead_letters is not None and deliveries(message) > LAST_SAFE_DELIVERY

    def bury_undecided(self, rejection: Rejection) -> None:
        """
        Start the dead letter of a message whose earlier deliveries ended without a decision.

        If that fails, the message is left to its lease: a lost answer does not say that there is none.
        """
        message, lease = rejection.message, rejection.lease
        if self.dead_letters is None or lease.seconds_left() <= 0:
            return
        if self.dead_letters.start(message, rejection.dag_id, Reason.UNDECIDED, rejection.cause):
            self.finish(lease, message["id"])

    def leave_unmatched(self, message: types.LeasedMessage, lease: HeldLease) -> None:
        """No route takes a message: it is left to its lease, or becomes a dead letter."""
        text = "Inbox %s: no route takes message %s, which is left to its lease"
        log.log(self._unmatched_level, text, self.inbox, plain(message["id"]))
        self._unmatched_level = logging.DEBUG  # of the further ones
        letters = self.dead_letters
        is_wanted = letters is not None and letters.rules.unmatched == "dead_letter"
        if letters is not None and is_wanted and letters.is_due(message):
            cause = "no route takes it: match, or each expression of trigger_dag_id, is false"
            self._try_dead_letter(Rejection(message, lease, None, cause), Reason.UNMATCHED)

    def _try_dead_letter(self, rejection: Rejection, reason: Reason) -> bool:
        """
        Start the run of a dead letter.

        :return: False if that was not tried; a failure was logged and counted.
        """
        message, lease = rejection.message, rejection.lease
        # A message that may have its run is left to its lease: the next delivery finds the run. A process
        # that was stopped for long may no longer hold the message: another one works on it.
        if (
            self.dead_letters is None
            or self.dead_letters.may_have_run(message, rejection.dag_id)
            or lease.seconds_left() <= 0
        ):
            return False
        if self.dead_letters.start(message, rejection.dag_id, reason, rejection.cause):
            self.finish(lease, message["id"])
        else:
            observers.tell("rejected", inbox=self.inbox, conn_id=self.conn_id)
        return True

    def _leave(self, rejection: Rejection) -> None:
        """Leave a message to its lease."""
        message_id, cause = rejection.message["id"], rejection.cause
        # With a dead-letter DAG there will be a run of that, so the task does not fail.
        self.counts.reject(message_id, cause if self.dead_letters is None else None)
        observers.tell("rejected", inbox=self.inbox, conn_id=self.conn_id)
        log.warning("Inbox %s: message %s was rejected: %s", self.inbox, plain(message_id), cause)


def probes_of(attempt: int) -> int:
    """
    Rejected messages after which a drain that has started no run of a target stops: 1, then 2, 4 ... 128.

    A target that rejects everything costs few deliveries, and rejected messages are passed within minutes.

    :param attempt: try of the task, 1 or more.
    """
    return int(min(MOST_PROBES, 2 ** min(attempt - 1, 10)))


def target_error(rejections: list[Rejection], attempt: int) -> TargetError:
    """
    The error of a target that rejected messages, and started no run in this drain.

    :param attempt: try of the task, 1 or more.
    """
    last = rejections[-1]
    were = f"{len(rejections)} messages were" if len(rejections) > 1 else "A message was"
    return TargetError(
        f"{were} rejected for the DAG {last.dag_id!r}, of which this task has started no run: {last.cause}."
        " Correct the schema, or the DAG (its params, its timetable, or the pattern of run ids). The next"
        f" try probes up to {probes_of(attempt + 1)} new messages, one at a time; no message is lost."
    )


def check_outlasted_lease(message_id: str, cause: Exception) -> TargetError:
    """
    The error of a message whose check could not be interrupted, and ended after its lease.

    It is too late for a dead letter: another process may hold the message by now.
    """
    return TargetError(
        f"The check of message {plain(message_id)} used up its lease: {cause}. Make the check faster. The"
        f" next try leases single messages, for {PROBE_SECONDS / 3600:g} h each, until it has started a run;"
        " no message is lost."
    )
