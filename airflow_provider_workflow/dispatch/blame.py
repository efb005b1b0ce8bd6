"""
Messages whose runs Airflow rejects: each is left to its lease, or becomes a dead letter.

That depends on who is at fault. A message that cannot be encoded or routed is at fault itself. Any other
rejection may be the target's fault, until the target starts a run of another message. So with a dead-letter
DAG the decision waits for the next started run, at most until the drain ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.client import types
from airflow_provider_workflow.dispatch.dead_letters import DeadLetters, Reason, is_on_last_safe_delivery
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.rejection_history import RejectionHistory
from airflow_provider_workflow.dispatch.rejections import (
    RunRejected,
    ServerFault,
    TargetError,
    UnencodableConf,
)
from airflow_provider_workflow.dispatch.results import Counts, log_rejection
from airflow_provider_workflow.dispatch.routing import UnroutableError
from airflow_provider_workflow.dispatch.runs import Start, run_id_of
from airflow_provider_workflow.dispatch.targets import TargetCheck

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook

MOST_REJECTED_IN_A_ROW = 20
"""Messages. After so many the target is broken: going on would use up a delivery of each message."""
MOST_FAILED_IN_A_ROW = 2
"""The same for answers of 5xx on Airflow 3.3 and later, where a rejected message is answered with 4xx."""


@dataclass(frozen=True)
class Rejection:
    """
    A rejected message.

    :param lease: of the message.
    :param dag_id: the DAG that rejected it; None if no route takes it.
    :param again: whether its DAG has started another run since it rejected the message before.
    :param is_server_fault: whether the answer was an error of 5xx, which need not be about the message.
    :param is_decided: whether there is nothing left to decide: it is or was tried as a dead letter.
    """

    message: types.LeasedMessage
    lease: HeldLease
    dag_id: str | None
    reason: Reason
    cause: str
    again: bool = False
    is_server_fault: bool = False
    is_decided: bool = False


@dataclass
class Blame:
    """
    Decides about the rejected messages of a drain.

    :param hook: its connection names the metrics.
    :param inbox: id or name.
    :param targets: which targets have started runs in this process.
    :param counts: where the messages are counted.
    :param dead_letters: starts their runs; without it no message becomes a dead letter.
    :param history: the rejections of earlier processes; used with dead letters only.
    :param acknowledge: called with a lease and the id of a message that is a dead letter now.
    :param rejected: rejected runs since the last one that was started.
    :param deciding: id of the latest message that became a dead letter, or was about to.
    :param undecided: rejected messages about which ``start`` or ``decide`` decides.
    """

    hook: WorkflowHook
    inbox: str
    targets: TargetCheck
    counts: Counts
    dead_letters: DeadLetters | None
    history: RejectionHistory
    acknowledge: Callable[[HeldLease, str], None]
    rejected: int = 0
    undecided: list[Rejection] = field(default_factory=list)
    deciding: str = ""
    _failed: int = 0

    def reject(
        self, message: types.LeasedMessage, lease: HeldLease, dag_id: str | None, error: Exception
    ) -> None:
        """
        Decide about a message, or put the decision off.

        :param error: a ``RunRejected`` or an ``UnroutableError``.
        :raises TargetError: the target is at fault, or Airflow itself.
        """
        if not isinstance(error, RunRejected) or isinstance(error, UnencodableConf):
            reason = Reason.EXPRESSION if isinstance(error, UnroutableError) else Reason.REJECTED
            self._blame_message(Rejection(message, lease, dag_id, reason, str(error)))
            return
        dag_id, again = str(dag_id), False
        if self.dead_letters is not None:
            again = self.history.reject(dag_id, message["id"])
        is_server_fault = isinstance(error, ServerFault)
        rejection = Rejection(message, lease, dag_id, Reason.REJECTED, str(error), again, is_server_fault)
        if not (self.targets.has_started(dag_id) or again or self._may_try_another):
            self._blame_target(rejection)
            raise _before_any_run(rejection)
        if self.dead_letters is None:
            self._leave(rejection)
        elif is_on_last_safe_delivery(message):
            # It would be a dead letter whatever is found out, and its lease may end before that.
            self._settle(rejection, at_fault=again)
            self.undecided.append(replace(rejection, is_decided=True))
        else:
            self.undecided.append(rejection)
        self._count_in_a_row(dag_id, error)

    @property
    def _may_try_another(self) -> bool:
        """
        Whether one more message may be tried on a target that has started no run in this process: its run
        would show that the rejected message is at fault. Not after a try that found the target broken.
        """
        possible = self.dead_letters is not None and not self.targets.was_broken
        return possible and all(each.again for each in self.undecided)

    def unmatched(self, message: types.LeasedMessage, lease: HeldLease) -> None:
        """No route takes a message."""
        letters = self.dead_letters
        if letters is not None and letters.rules.unmatched == "dead_letter" and letters.is_due(message):
            cause = "no route takes it: match, or each expression of trigger_dag_id, is false"
            self._start_dead_letter(Rejection(message, lease, None, Reason.UNMATCHED, cause))

    def start(self, dag_id: str, message_id: str, outcome: Start) -> None:
        """A run of the target was started: the messages that it rejected before are at fault themselves."""
        self.rejected = self._failed = 0
        self.history.end(message_id)
        # Airflow finds an existing run before it checks anything else, so that shows nothing.
        if self.dead_letters is not None and outcome is Start.STARTED:
            self.history.start(dag_id)
            decided = [each for each in self.undecided if each.dag_id == dag_id]
            self.undecided = [each for each in self.undecided if each.dag_id != dag_id]
            for each in decided:
                # Airflow may have failed at that moment alone: then a second rejection has to show it.
                self._settle(each, at_fault=each.again or not each.is_server_fault)

    def decide(self, *, target_broke: bool = False) -> None:
        """
        Decide about the rest, as no further run is started.

        :param target_broke: whether that is because a target broke.
        :raises TargetError: a target started no run in this process.
        """
        undecided, self.undecided = self.undecided, []
        for each in undecided:
            self._settle(each, at_fault=each.again and not target_broke)
        for each in undecided:
            if not (target_broke or each.again or self.targets.has_started(str(each.dag_id))):
                raise _before_any_run(each)

    def fail(self, message: types.LeasedMessage, lease: HeldLease, dag_id: str, error: TargetError) -> None:
        """No run of the target can be started, whatever the message."""
        if is_on_last_safe_delivery(message):
            self._start_dead_letter(Rejection(message, lease, dag_id, Reason.TARGET, str(error)))

    def _settle(self, rejection: Rejection, *, at_fault: bool) -> None:
        if not rejection.is_decided:
            (self._blame_message if at_fault else self._blame_target)(rejection)

    def _blame_message(self, rejection: Rejection) -> None:
        due = self.dead_letters is not None and self.dead_letters.is_due(rejection.message)
        if not (due and self._start_dead_letter(rejection)):
            self._leave(rejection)

    def _blame_target(self, rejection: Rejection) -> None:
        """The message may be sound: it is a dead letter only if the service would soon quarantine it."""
        due = is_on_last_safe_delivery(rejection.message)
        if not (due and self._start_dead_letter(replace(rejection, reason=Reason.TARGET))):
            self._leave(rejection)

    def _start_dead_letter(self, rejection: Rejection) -> bool:
        """
        Start the run of a dead letter.

        :return: False if that was not tried; a failure was logged and counted.
        """
        message, lease = rejection.message, rejection.lease
        self.deciding = message["id"]
        if self.dead_letters is None or not self._has_no_run(rejection):
            return False
        # A process that was stopped for long may no longer hold the message: another one works on it.
        if lease.seconds_left() <= 0:
            return False
        where = (lease.inbox_id, rejection.dag_id)
        if self.dead_letters.start(message, *where, rejection.reason, rejection.cause):
            self.history.end(message["id"])
            self.acknowledge(lease, message["id"])
        return True

    def _has_no_run(self, rejection: Rejection) -> bool:
        """
        Whether a message certainly has no run: an answer that is an error, or that is lost, does not say so.

        A message that has one is left to its lease, and its run is found by the next delivery.
        """
        if rejection.dag_id is None or rejection.reason is Reason.EXPRESSION:
            return True
        run_id = run_id_of(rejection.message["id"], rejection.lease.inbox_id)
        try:
            return not self.targets.runs.exists(rejection.dag_id, run_id)
        except TargetError:
            return False

    def _leave(self, rejection: Rejection) -> None:
        """Leave a message to its lease."""
        message = rejection.message
        # With a dead-letter DAG there will be a run of that, so the task does not fail.
        self.counts.refuse(message["id"], rejection.cause if self.dead_letters is None else None)
        log_rejection(self.hook, self.inbox, message, rejection.cause)

    def _count_in_a_row(self, dag_id: str, error: RunRejected) -> None:
        """
        Count a rejection.

        :raises TargetError: there are so many that the target is broken, or Airflow does not answer.
        """
        if isinstance(error, ServerFault):
            # Raises TargetError if Airflow does not answer.
            self.targets.runs.unfinished(dag_id)
            self._failed += 1
        self.rejected += 1
        most_failed = MOST_FAILED_IN_A_ROW if airflow_release() >= (3, 3) else MOST_REJECTED_IN_A_ROW
        if self.rejected >= MOST_REJECTED_IN_A_ROW or self._failed >= most_failed:
            raise TargetError(
                f"Airflow rejected the last {self.rejected} runs of the DAG {dag_id!r} in a row, the last one"
                f" with: {error}. No message is lost."
            )


def _before_any_run(rejection: Rejection) -> TargetError:
    return TargetError(
        f"Airflow rejected a run of the DAG {rejection.dag_id!r} before this task had started any:"
        f" {rejection.cause}. Correct the DAG (its params, its timetable, or the pattern of run ids). Each"
        " retry of this task begins with one message; no message is lost."
    )
