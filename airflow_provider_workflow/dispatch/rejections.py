"""Settles the messages of a drain that start no run: as dead letters, or by leaving them to their leases."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_workflow import observers
from airflow_provider_workflow.dispatch.blame import Blame, Decision, Fault, Reason, Refusal, probes_of
from airflow_provider_workflow.dispatch.dead_letters import DeadLetters
from airflow_provider_workflow.dispatch.delivery import LAST_SAFE_DELIVERY, Delivery
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.results import Counts
from airflow_provider_workflow.dispatch.run_errors import TargetError
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.limits import PROBE_SECONDS
from airflow_provider_workflow.text import escaped

log = logging.getLogger(__name__)

KILLS = "its earlier deliveries ended without a decision; it may kill the process that works on it"
NO_ROUTE = "no route takes it: match, or each expression of trigger_dag_id, is false"


@dataclass
class Rejections:
    """
    The messages of a drain that start no run.

    :param inbox: id or name.
    :param conn_id: id of the Airflow connection.
    :param counts: where the messages are counted.
    :param dead_letters: starts their runs; without it no message becomes a dead letter.
    :param finish: called with a lease and the id of a message that is a dead letter now.
    :param blame: decides whose fault a rejection by a target is.
    """

    inbox: str
    conn_id: str
    counts: Counts
    dead_letters: DeadLetters | None
    finish: Callable[[HeldLease, str], None]
    blame: Blame = field(default_factory=Blame)
    _unmatched_level: int = logging.INFO

    def reject(self, refusal: Refusal) -> None:
        """
        A target rejected a message.

        :raises TargetError: it rejected so many new messages in a row that it must have broken.
        """
        self._settle_all(self.blame.run_rejected(refusal))
        if (broken := self.blame.broken_target(refusal)) is not None:
            raise broken

    def end_lease(self) -> None:
        """Settle what is decided at the end of a lease."""
        self._settle_all(self.blame.lease_ended())

    def is_urgent(self, seconds: float) -> bool:
        """
        Whether the drain has to end, so that an undecided message is decided before its lease ends.

        :param seconds: how long one more lease may take.
        """
        return any(refusal.lease.seconds_left() <= seconds for refusal in self.blame.without_spare())

    def end_drain(self, attempt: int) -> TargetError | None:
        """
        Settle all rejected messages.

        :param attempt: try of the task, 1 or more.
        :return: the error of a target that rejected messages, and of which this drain started no run.
        """
        decisions = self.blame.drain_ended()
        self._settle_all(decisions)
        of_targets = [
            refusal
            for refusal, fault in decisions
            if fault is Fault.TARGET and refusal.dag_id not in self.blame.started
        ]
        return target_error(of_targets, attempt) if of_targets else None

    def _settle_all(self, decisions: list[Decision]) -> None:
        for refusal, fault in decisions:
            self.settle(refusal, fault)

    def settle(self, refusal: Refusal, fault: Fault) -> None:
        """Make a dead letter of a message that starts no run, or leave it to its lease."""
        letters = self.dead_letters
        is_due = letters is not None and letters.rules.is_due(refusal.delivery, fault)
        reason = Reason.TARGET if fault is Fault.TARGET else refusal.reason
        if not (is_due and self._try_dead_letter(refusal, reason)):
            self._leave(refusal)

    def leave_unmatched(self, delivery: Delivery, lease: HeldLease) -> None:
        """No route takes a message: it is left to its lease, or becomes a dead letter."""
        rules = self.dead_letters.rules if self.dead_letters is not None else None
        refusal = Refusal(delivery, lease, None, NO_ROUTE)
        if (
            rules is not None
            and rules.unmatched == "dead_letter"
            and rules.is_due(delivery, Fault.MESSAGE)
            and self._try_dead_letter(refusal, Reason.UNMATCHED)
        ):
            return
        text = "Inbox %s: no route takes message %s, which is left to its lease"
        log.log(self._unmatched_level, text, name_of(self.inbox, self.conn_id), escaped(delivery.id))
        self._unmatched_level = logging.DEBUG  # of the further ones

    def is_undecided(self, delivery: Delivery) -> bool:
        """
        Whether earlier deliveries of a message ended without a decision, so that its dead letter comes first.

        The fourth delivery is still tried, as a target that was broken may be correct by then. The fifth is
        the last one, and the message may kill the process that tries it.
        """
        return self.dead_letters is not None and delivery.count > LAST_SAFE_DELIVERY

    def bury_undecided(self, delivery: Delivery, lease: HeldLease, dag_id: str) -> None:
        """
        Start the dead letter of a message whose earlier deliveries ended without a decision.

        If that fails, the message is left to its lease: a lost answer does not say that there is none.
        """
        if self.dead_letters is not None and lease.seconds_left() > 0:
            self._start_dead_letter(
                self.dead_letters, Refusal(delivery, lease, dag_id, KILLS), Reason.UNDECIDED
            )

    def _try_dead_letter(self, refusal: Refusal, reason: Reason) -> bool:
        """
        Start the run of a dead letter.

        :return: False if that was not tried; a failure was logged and counted.
        """
        delivery, lease = refusal.delivery, refusal.lease
        # A message that may have its run is left to its lease: the next delivery finds the run. A process
        # that was stopped for long may no longer hold the message: another one works on it.
        if (
            self.dead_letters is None
            or self.dead_letters.may_have_run(delivery, refusal.dag_id)
            or lease.seconds_left() <= 0
        ):
            return False
        self._start_dead_letter(self.dead_letters, refusal, reason)
        return True

    def _start_dead_letter(self, letters: DeadLetters, refusal: Refusal, reason: Reason) -> None:
        if letters.start(refusal.delivery, refusal.dag_id, reason, refusal.cause):
            self.finish(refusal.lease, refusal.delivery.id)
        else:
            observers.notify("rejected", inbox=self.inbox, conn_id=self.conn_id)

    def _leave(self, refusal: Refusal) -> None:
        """Leave a message to its lease."""
        message_id, cause = refusal.delivery.id, refusal.cause
        # With a dead-letter DAG there will be a run of that, so the task does not fail.
        self.counts.reject(message_id, cause if self.dead_letters is None else None)
        observers.notify("rejected", inbox=self.inbox, conn_id=self.conn_id)
        name = name_of(self.inbox, self.conn_id)
        log.warning("Inbox %s: message %s was rejected: %s", name, escaped(message_id), cause)


def target_error(refusals: list[Refusal], attempt: int) -> TargetError:
    """
    The error of a target that rejected messages, and started no run in this drain.

    :param attempt: try of the task, 1 or more.
    """
    last = refusals[-1]
    were = f"{len(refusals)} messages were" if len(refusals) > 1 else "A message was"
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
        f"The check of message {escaped(message_id)} used up its lease: {cause}. Make the check faster. The"
        f" next try leases single messages, for {PROBE_SECONDS / 3600:g} h each, until it has started a run;"
        " no message is lost."
    )
