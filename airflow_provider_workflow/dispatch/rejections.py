"""
Messages whose runs were rejected in one drain: whose fault each rejection is, and what follows.

A message that no route takes, does not fit the schema or cannot be stored is at fault itself. Any other
rejection is the message's fault if the drain starts a run of the same target, before it or after it, and
otherwise the target's. A message at fault becomes a dead letter, from ``dead_letter_after`` deliveries on.
What is the target's becomes one only if the service would soon quarantine it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_workflow import observers, types
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.dead_letters import DeadLetters, Reason, is_on_last_safe_delivery
from airflow_provider_workflow.dispatch.lease import HeldLease, delivery_count
from airflow_provider_workflow.dispatch.results import Counts
from airflow_provider_workflow.dispatch.run_errors import TargetError

log = logging.getLogger(__name__)

MOST_IN_A_ROW = 20
"""Rejected messages, each on its first delivery, after which a target that has started runs broke since."""
MOST_PROBES = 128
REDELIVERED_PROBES = 32
"""So many redelivered messages count apart, from the second try on."""


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
    _undecided: list[Rejection] = field(default_factory=list)
    _in_a_row: Counter[str | None] = field(default_factory=Counter)

    def probes_left(self, attempt: int) -> int:
        """
        How many more rejections this drain bears by targets of which it has started no run.

        :param attempt: try of the task, 1 or more.
        """
        unproven = [rejection for rejection in self._undecided if rejection.dag_id not in self.started]
        counted = sum(attempt == 1 or not _is_redelivered(rejection.message) for rejection in unproven)
        probes = probes_of(attempt)
        return min(probes - counted, max(probes, REDELIVERED_PROBES) - len(unproven))

    def start(self, dag_id: str) -> None:
        """A run of a target was started."""
        self.started.add(dag_id)
        del self._in_a_row[dag_id]

    def reject(self, rejection: Rejection) -> None:
        """
        A target rejected a message; ``decide`` says whose fault it is.

        :raises TargetError: the target has rejected so many new messages in a row that it must have broken.
        """
        self._undecided.append(rejection)
        self._in_a_row[rejection.dag_id] += not _is_redelivered(rejection.message)
        in_a_row = self._in_a_row[rejection.dag_id]
        if in_a_row >= MOST_IN_A_ROW and rejection.dag_id in self.started:
            self.started.discard(rejection.dag_id)
            raise TargetError(
                f"Airflow rejected {in_a_row} new messages for the DAG {rejection.dag_id!r} in a row,"
                f" the last one with: {rejection.cause}. No message is lost."
            )

    def decide(self, *, at_the_end: bool = False) -> list[Rejection]:
        """
        Decide about the rejections of targets that have started runs; at the end of the drain about all.

        :return: those that are the fault of their target.
        """
        undecided, self._undecided = self._undecided, []
        of_targets: list[Rejection] = []
        for rejection in undecided:
            if rejection.dag_id in self.started:
                self.blame_message(rejection)
            elif at_the_end:
                of_targets.append(rejection)
                self.blame_target(rejection)
            else:
                self._undecided.append(rejection)
        return of_targets

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

    def leave_unmatched(self, message: types.LeasedMessage, lease: HeldLease) -> None:
        """No route takes a message: it is left to its lease, or becomes a dead letter."""
        log.debug("Inbox %s: message %s is unmatched; its lease expires", self.inbox, plain(message["id"]))
        letters = self.dead_letters
        if letters is not None and letters.rules.unmatched == "dead_letter" and letters.is_due(message):
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
        return True

    def _leave(self, rejection: Rejection) -> None:
        """Leave a message to its lease."""
        message_id, cause = rejection.message["id"], rejection.cause
        # With a dead-letter DAG there will be a run of that, so the task does not fail.
        self.counts.reject(message_id, cause if self.dead_letters is None else None)
        observers.tell("rejected", inbox=self.inbox, conn_id=self.conn_id)
        log.warning("Inbox %s: message %s was rejected: %s", self.inbox, plain(message_id), cause)


def _is_redelivered(message: types.LeasedMessage) -> bool:
    return (delivery_count(message) or 1) > 1


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
    number = f"{len(rejections)} messages" if len(rejections) > 1 else "a message"
    return TargetError(
        f"Airflow rejected {number} for the DAG {last.dag_id!r}, and this task has started no run of it:"
        f" {last.cause}. Correct the DAG (its params, its timetable, or the pattern of run ids). The next try"
        f" probes up to {probes_of(attempt + 1)} new messages, one at a time; no message is lost."
    )
