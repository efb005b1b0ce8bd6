"""
Decides whose fault it is that a message starts no run; it calls neither Airflow nor the service.

A message that fits no route or schema, or whose run cannot be stored, is at fault itself. Any other rejection
is the message's fault if the same drain also starts a run of the target: at any time after the rejection, or
before it with fewer than ``MAX_REJECTIONS_IN_A_ROW`` rejections since. Otherwise it is the target's fault.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import chain

from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.run_errors import TargetError

MAX_REJECTIONS_IN_A_ROW = 20
"""After so many rejections in a row, a target that has worked in this drain may be broken."""
MAX_PROBES = 128
"""Maximum of :func:`probes_of`."""
MIN_REJECTION_LIMIT = 32
"""
A drain stops after so many rejections in all, or after :func:`probes_of` if that is more. A retry does not
count redelivered messages as probes, as an earlier try may have rejected them; this is their limit.
"""


class Reason(StrEnum):
    """Why a message is a dead letter."""

    REJECTED = "rejected"  #: Airflow rejects its run, and starts runs of other messages
    EXPRESSION = "expression"  #: an expression cannot be evaluated on it
    INVALID = "invalid"  #: its payload does not fit the schema, or a check of it takes too long
    UNMATCHED = "unmatched"  #: no route takes it
    TARGET = "target"  #: the target starts no runs, and the service would soon quarantine the message
    UNDECIDED = "undecided"  #: its earlier deliveries ended without a decision: it may kill the process
    FAILED = "failed"  #: the function of a ``@task.workflow_inbox`` failed for it


class Fault(Enum):
    """Whose fault it is that a message starts no run."""

    MESSAGE = "message"
    TARGET = "target"  #: the message may be sound


@dataclass(frozen=True)
class Refusal:
    """
    A leased message that starts no run.

    :param lease: the lease that holds the message.
    :param dag_id: the DAG that rejected it; None if no route takes it.
    :param cause: why it starts no run, without any value of the message.
    :param reason: the reason of its dead letter if the message is at fault.
    """

    delivery: Delivery
    lease: HeldLease
    dag_id: str | None
    cause: str
    reason: Reason = Reason.REJECTED


Decision = tuple[Refusal, Fault]


@dataclass
class Blame:
    """
    Collects the rejections of a drain until it is known whose fault they are.

    :param started: targets of which this drain has started a run, without those that broke later.
    """

    started: set[str] = field(default_factory=set)
    _undecided: dict[str | None, list[Refusal]] = field(default_factory=dict)
    """The messages that a target rejected since its last run was started, by target."""
    _at_fault: list[Refusal] = field(default_factory=list)
    _in_a_row: Counter[str | None] = field(default_factory=Counter)
    _new_in_a_row: Counter[str | None] = field(default_factory=Counter)

    def run_started(self, dag_id: str) -> None:
        """A run of a target was started. So the messages that the target rejected before are at fault."""
        self.started.add(dag_id)
        self._at_fault += self._undecided.pop(dag_id, [])
        del self._in_a_row[dag_id], self._new_in_a_row[dag_id]

    def run_rejected(self, refusal: Refusal) -> list[Decision]:
        """
        A target rejected a message.

        :return: usually nothing, as the next run of the target decides. After more than
            ``MAX_REJECTIONS_IN_A_ROW`` the target may be broken: each further message is decided at once, as
            thousands may follow before the next run.
        """
        dag_id = refusal.dag_id
        self._in_a_row[dag_id] += 1
        # A redelivered message may have been rejected before.
        self._new_in_a_row[dag_id] += not refusal.delivery.is_redelivered
        if dag_id in self.started and self._in_a_row[dag_id] > MAX_REJECTIONS_IN_A_ROW:
            return [(refusal, Fault.TARGET)]
        self._undecided.setdefault(dag_id, []).append(refusal)
        return []

    def broken_target(self, refusal: Refusal) -> TargetError | None:
        """
        The error of a target that must be broken now; None if it may still work.

        New messages are the proof, because an earlier try may have rejected the redelivered ones.
        """
        dag_id = refusal.dag_id
        if dag_id not in self.started or self._new_in_a_row[dag_id] < MAX_REJECTIONS_IN_A_ROW:
            return None
        self.started.discard(dag_id)
        return TargetError(
            f"{MAX_REJECTIONS_IN_A_ROW} new messages were rejected in a row for the DAG {dag_id!r}, the last"
            f" one with: {refusal.cause}. No message is lost."
        )

    def lease_ended(self) -> list[Decision]:
        """
        All messages of a lease were tried.

        :return: the messages that are at fault, because a run of their target was started after them; and
            those that have no delivery to spare, if their target has worked in this drain.
        """
        decided = self._decided()
        for dag_id, refusals in self._undecided.items():
            if dag_id in self.started:
                decided += [(refusal, Fault.MESSAGE) for refusal in refusals if refusal.delivery.is_last_safe]
                refusals[:] = [refusal for refusal in refusals if not refusal.delivery.is_last_safe]
        return decided

    def drain_ended(self) -> list[Decision]:
        """Nothing more is tried, so all rejections are decided."""
        decided = self._decided()
        for dag_id, refusals in self._undecided.items():
            is_proven = dag_id in self.started
            may_be_broken = self._in_a_row[dag_id] >= MAX_REJECTIONS_IN_A_ROW
            for refusal in refusals:
                is_at_fault = is_proven and (not may_be_broken or refusal.delivery.is_last_safe)
                decided.append((refusal, Fault.MESSAGE if is_at_fault else Fault.TARGET))
        self._undecided = {}
        return decided

    def _decided(self) -> list[Decision]:
        at_fault, self._at_fault = self._at_fault, []
        return [(refusal, Fault.MESSAGE) for refusal in at_fault]

    def without_spare(self) -> list[Refusal]:
        """The undecided messages that have no delivery to spare: they must be decided in this one."""
        refusals = chain.from_iterable(self._undecided.values())
        return [refusal for refusal in refusals if refusal.delivery.is_last_safe]

    def probes_left(self, attempt: int) -> int:
        """
        How many more rejections this drain allows from targets of which it has started no run.

        :param attempt: try of the task, 1 or more.
        """
        targets = self._undecided.keys() - self.started
        unproven = [refusal.delivery for dag_id in targets for refusal in self._undecided[dag_id]]
        redelivered = sum(delivery.is_redelivered for delivery in unproven)
        counted = len(unproven) - (redelivered if attempt > 1 else 0)
        probes = probes_of(attempt)
        return min(probes - counted, max(probes, MIN_REJECTION_LIMIT) - len(unproven))


def probes_of(attempt: int) -> int:
    """
    After how many rejected messages a drain that has started no run of a target stops: 1, then 2, 4 ... 128.

    It begins low, so that a target that rejects everything costs few deliveries. It grows with each try, so
    that a later one reaches the messages behind many that are at fault.

    :param attempt: try of the task, 1 or more.
    """
    return int(min(MAX_PROBES, 2 ** min(attempt - 1, 10)))
