"""
The observer of a history, with the rules that must hold at each moment.

1. A message is acknowledged only if it has a run or a dead letter at that moment.
4. A poll knows that a target works once it has started a run of it, or found one and met no rejection since.
   Until then it leases one message at a time (a probe), and after a failed try it leases each probe for an
   hour. It stops leasing after 1 rejection by targets of which it has started no run. After failed tries
   it stops after 2, 4, 8 ... 128 of them, and only rejections of new messages count.
5. After its target failed, a poll leases nothing more. No poll leases a message again that it left to its
   lease.
7. A process that ends by itself has released the messages that it did not attempt. With a dead-letter DAG it
   has attempted each message on its last safe delivery. A poll that leases or starts more after a failed
   acknowledgement sends the acknowledgement again. If that fails as well, the poll raises the error; it waits
   instead if the service rejected its credentials or did not know the inbox.
8. A process that nothing disturbed, and that ends before the safety margin of its lease begins, has
   acknowledged all its messages. If some of them start no run, it has acknowledged at least those that have a
   run or a dead letter.
9. A single listener leases no more than its target has capacity for.

``starts.py`` has the rules for the start of a run, and ``invariants.py`` those for the end of a history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.run_errors import TargetError
from tests.simulation.knowledge import MARGIN_SECONDS, PROBE_SECONDS, Key, Knowledge, Lease
from tests.simulation.scheduler import TaskTimeout
from tests.simulation.starts import LAST_SAFE_DELIVERY, Starts

if TYPE_CHECKING:
    from tests.simulation.airflow import Run
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World


class Ledger:
    """
    Observes a history.

    :param violation: the first rule that did not hold, or empty.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.violation = ""
        self.leases: dict[str, Lease] = {}
        self.deliveries: dict[Key, list[Lease]] = defaultdict(list)
        self.runs: dict[Key, list[Run]] = defaultdict(list)
        self.dead_letters: dict[Key, list[Run]] = defaultdict(list)
        self.run_times: dict[Key, float] = {}
        self.done: set[Key] = set()
        self.starts = Starts(world, self)

    def must(self, holds: bool, process: Process, rule: int, text: str) -> None:
        """Note that a rule does not hold."""
        if not holds and not self.violation:
            self.violation = f"rule {rule}: {process.name}: {text}"
            self.world.note(process, "VIOLATION", self.violation)

    # Leasing

    def lease_issued(self, process: Process, limit: int, seconds: int) -> None:
        knowledge: Knowledge = process.knowledge
        knowledge.went_on()
        if self.world.plan.has_store and not knowledge.is_trigger:
            self.must(knowledge.has_checked_store, process, 17, "leases before a write to the payload store")
            self.must(not knowledge.store_failed, process, 17, "leases after a write to it failed")
        if knowledge.is_probing:
            self.must(limit <= 1, process, 4, f"leases {limit} messages without proof that runs start")
            long = knowledge.attempt == 1 or seconds >= PROBE_SECONDS
            self.must(long, process, 4, f"leases its probe for {seconds} s only")
        probes_left = knowledge.unproven < knowledge.probes
        self.must(probes_left, process, 4, f"leases after {knowledge.unproven} rejections without a run")
        now = self.world.scheduler.now - MARGIN_SECONDS / 2
        self.must(not knowledge.failed, process, 5, "leases after its target failed")
        if not process.delayed_until:
            self.must(now < self._left_until(knowledge), process, 5, "leases messages again that it left")
        if self.world.plan.is_alone and process.delayed_until == 0:
            capacity = self.world.capacity()
            self.must(limit <= capacity, process, 9, f"leases {limit} messages with capacity for {capacity}")

    def leased(self, process: Process, inbox: str, answer: dict[str, Any], seconds: int) -> None:
        """A lease took effect."""
        deliveries = [
            (message["id"], message["message_attributes"]["lease_count"] or 1)
            for message in answer["results"]
            if "id" in message
        ]
        # A message that was delivered twice keeps its higher count: that delivery is worked on first.
        counts = dict(sorted(deliveries, key=lambda delivery: delivery[1]))
        now = self.world.scheduler.now
        inbox_id = self.world.inbox_ids.get(inbox, inbox)
        lease = Lease(answer["lease_id"], inbox_id, process, seconds, now + seconds, counts, set(deliveries))
        self.leases[lease.lease_id] = lease
        for message_id in counts:
            self.deliveries[inbox_id, message_id].append(lease)
        lease.has_twice = len(counts) < len(answer["results"])

    def handed_off(self, process: Process, lease_id: str, ends_at: float) -> None:
        """A process is given the lease of a trigger."""
        lease = self.leases[lease_id]
        if lease.process.harmed:
            process.harm(lease.process.harmed)
        if lease.until - self.world.scheduler.now < 2 * MARGIN_SECONDS:
            process.harm("resumed late")
            lease.is_short = True
        lease.process = process
        lease.is_at_work = True
        lease.known_until = ends_at
        lease.is_late = ends_at - MARGIN_SECONDS <= self.world.scheduler.now
        process.knowledge.leases.append(lease)

    def lease_answered(self, process: Process, lease_id: str, sent_at: float) -> None:
        """A process knows of its lease."""
        lease = self.leases[lease_id]
        lease.process, lease.is_at_work = process, not process.knowledge.is_trigger
        # A process does not know when its request took effect.
        lease.is_doubtful = process.frozen_until >= sent_at
        lease.known_until = sent_at + lease.seconds
        process.knowledge.leases.append(lease)

    def _left_until(self, knowledge: Knowledge) -> float:
        """When the first message that a poll left to its lease is redelivered."""
        leases = knowledge.leases[knowledge.leases_before :]
        return min(
            (lease.until for lease in leases if any(self._is_left(lease, id_) for id_ in lease.counts)),
            default=inf,
        )

    def _is_left(self, lease: Lease, message_id: str) -> bool:
        """Whether a message is left to its lease, as it is neither a run nor a dead letter."""
        is_fit = message_id not in lease.refused and not self.world.is_odd(lease.inbox_id, message_id)
        return not is_fit and not self.dead_letters.get((lease.inbox_id, message_id))

    # Acknowledging and releasing

    def end_issued(self, process: Process, operation: str, lease_id: str, ids: Sequence[str] | None) -> None:
        lease = self.leases[lease_id]
        lease.ended, message_ids = True, lease.counts if ids is None else ids
        if operation == "acknowledge":
            process.knowledge.owes_acknowledgement = False
        if operation == "release":
            lease.released.update(message_ids)
            again = (
                [] if lease.has_twice or process.stopped else sorted(lease.refused.intersection(message_ids))
            )
            self.must(not again, process, 5, f"releases {again}, which the next try would lease at once")

    def end_answered(
        self,
        process: Process,
        operation: str,
        lease_id: str,
        ids: Sequence[str] | None,
        error: WorkflowError | None,
    ) -> None:
        lease, knowledge = self.leases[lease_id], process.knowledge
        message_ids = list(lease.counts if ids is None else ids)
        if error is not None:
            lease.unended.update(message_ids)
        if operation == "acknowledge":
            for message_id in message_ids:
                if error is None:
                    knowledge.failed_acks.pop((lease_id, message_id), None)
                else:
                    knowledge.failed_acks[lease_id, message_id] = error
            knowledge.has_failed_ack = knowledge.has_failed_ack or error is not None

    def acknowledged(self, process: Process, inbox: str, lease_id: str, ids: list[str]) -> None:
        """An acknowledgement took effect."""
        lease = self.leases[lease_id]
        for message_id in ids:
            key = lease.inbox_id, message_id
            has_one = self._has_run_or_dead_letter(key)
            self.must(has_one, process, 1, f"{message_id} is acknowledged, and has no run")
            lease.acknowledged.add(message_id)
            self.done.add(key)

    def _has_run_or_dead_letter(self, key: Key) -> bool:
        return bool(self.runs.get(self.world.identity(key)) or self.dead_letters.get(key))

    def _is_to_be_acknowledged(self, key: Key) -> bool:
        """Whether it has a run or a dead letter, and no delivery of it is acknowledged."""
        return key not in self.done and self._has_run_or_dead_letter(key)

    # Processes

    def poll_began(self, process: Process) -> None:
        knowledge: Knowledge = process.knowledge
        knowledge.polls += 1
        knowledge.failed = knowledge.troubled = False
        knowledge.owes_acknowledgement = knowledge.source_in_trouble = False
        knowledge.has_checked_store = knowledge.store_failed = False
        knowledge.leases_before, knowledge.faulty = len(knowledge.leases), None
        knowledge.targets_started.clear()
        knowledge.targets_found.clear()
        knowledge.rejected_by.clear()
        knowledge.failed_acks.clear()

    def poll_ended(self, process: Process, error: BaseException | None) -> None:
        """A poll ended, with an error or without."""
        knowledge: Knowledge = process.knowledge
        if isinstance(error, Exception | None) and not process.stopped:
            is_sent = not knowledge.owes_acknowledgement
            self.must(is_sent, process, 7, "does not send an acknowledgement again that failed")
        if error is None:
            ids = sorted(message_id for _, message_id in knowledge.failed_acks)
            # A sensor waits while its source is in trouble, and may raise an alarm later.
            self.must(
                not ids or knowledge.source_in_trouble,
                process,
                7,
                f"succeeds although the acknowledgement of {ids} failed",
            )
            self.must(
                not knowledge.unproven, process, 4, "succeeds although a target rejected all it was asked"
            )
        if isinstance(error, TargetError):
            knowledge.attempt += 1
            # After the deferral it probes again.
            knowledge.targets_started.clear()
            knowledge.targets_found.clear()
            knowledge.rejected_by.clear()
            knowledge.failed = False

    def process_ended(self, process: Process, outcome: object) -> None:
        """A process ended by itself, after an error or without."""
        now = self.world.scheduler.now
        for lease in process.knowledge.leases:
            # By the clock of the service, a lease that was handed off too late may still hold its messages.
            late = lease.is_late and (process.stopped or isinstance(outcome, TaskTimeout))
            self.must(
                late or lease.ended or not lease.is_late, process, 7, "does not release a late hand-off"
            )
            if lease.known_until > now + MARGIN_SECONDS + 10.0 and not process.stopped:
                self._must_be_released(process, lease)
            in_time = now < lease.known_until - MARGIN_SECONDS
            knowledge: Knowledge = process.knowledge
            undisturbed = not (process.harmed or knowledge.has_failed_ack or knowledge.has_failed_write)
            if undisturbed and in_time and self.world.plan.max_unfinished_runs is None:
                self._must_be_acknowledged(process, lease)

    def _must_be_released(self, process: Process, lease: Lease) -> None:
        unattempted_ids = [
            message_id
            for message_id in self.world.still_leased(lease.inbox_id, lease.lease_id)
            if message_id not in lease.attempted
            and message_id not in lease.unended
            and not self.world.is_odd(lease.inbox_id, message_id)
        ]
        if self.world.plan.dead_letter_dag_id is not None:
            last = [
                message_id for message_id in unattempted_ids if lease.counts[message_id] >= LAST_SAFE_DELIVERY
            ]
            self.must(not last, process, 7, f"ends without a try of {last}, on their last safe delivery")
        # If Airflow does not answer, one message stays leased, as the next try would lease it again at once.
        most = 1 if process.knowledge.troubled else 0
        self.must(
            len(unattempted_ids) <= most,
            process,
            7,
            f"ends, and leaves {unattempted_ids} leased, which it did not attempt",
        )

    def _must_be_acknowledged(self, process: Process, lease: Lease) -> None:
        odd = any(
            self.world.is_odd(other_lease.inbox_id, other_id)
            for other_lease in process.knowledge.leases
            for other_id in other_lease.counts
        )
        unacknowledged_ids = [
            message_id
            for message_id in sorted(set(lease.counts) - lease.acknowledged)
            if not odd or self._is_to_be_acknowledged((lease.inbox_id, message_id))
        ]
        self.must(
            not unacknowledged_ids,
            process,
            8,
            f"ends undisturbed, and {unacknowledged_ids} are not acknowledged",
        )

    def lease_of(self, process: Process, message_id: str) -> Lease | None:
        """The latest lease of a message by a process."""
        knowledge: Knowledge = process.knowledge
        return next((lease for lease in reversed(knowledge.leases) if message_id in lease.counts), None)
