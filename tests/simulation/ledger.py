"""
What is observed in a history, and the rules that must hold at each moment.

1. A message is acknowledged only if it has a run or a dead letter at that moment.
4. A poll that has neither started nor found a run of a target, or that found one before the target rejected
   a message, leases one message at a time (a probe), after a failed try for an hour. It leases nothing more
   after 1 rejection by targets of which it has started no run; after a failed try 2, then 4, 8 ... 128, each
   of a message that was not delivered before.
5. After the target failed, a poll leases nothing more, nor messages again that it has left to their lease.
7. A process that ends, and was not ended, has released what it did not attempt. With a dead-letter DAG it has
   attempted messages on their last safe delivery. A poll that leases or starts more after a failed
   acknowledgement sends that again, and raises its error if it fails again, unless the service rejected its
   credentials or did not know the inbox: then it waits.
8. A process that nothing disturbed, and that ends before the safety margin of its lease begins, leaves no
   message without an acknowledgement; among messages that start no run, none that has a run or a dead letter.
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
from tests.simulation.held import MARGIN_SECONDS, PROBE_SECONDS, Held, Key, Seen
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
        self.leases: dict[str, Held] = {}
        self.deliveries: dict[Key, list[Held]] = defaultdict(list)
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
        seen: Seen = process.seen
        seen.went_on()
        if seen.is_probing:
            self.must(limit <= 1, process, 4, f"leases {limit} messages without proof that runs start")
            long = seen.attempt == 1 or seconds >= PROBE_SECONDS
            self.must(long, process, 4, f"leases its probe for {seconds} s only")
        probes_left = seen.unproven < seen.probes
        self.must(probes_left, process, 4, f"leases after {seen.unproven} rejections without a run")
        now = self.world.scheduler.now - MARGIN_SECONDS / 2
        self.must(not seen.failed, process, 5, "leases after its target failed")
        if not process.delayed_until:
            self.must(now < self._left_until(seen), process, 5, "leases messages again that it left")
        if self.world.plan.is_alone and process.delayed_until == 0:
            capacity = self.world.capacity()
            self.must(limit <= capacity, process, 9, f"leases {limit} messages with capacity for {capacity}")

    def leased(self, process: Process, inbox: str, answer: dict[str, Any], seconds: int) -> None:
        """A lease took effect."""
        deliveries = [
            (each["id"], each["message_attributes"]["lease_count"] or 1)
            for each in answer["results"]
            if "id" in each
        ]
        # Of a message that was delivered twice the higher one, which goes first.
        counts = dict(sorted(deliveries, key=lambda delivery: delivery[1]))
        now = self.world.scheduler.now
        inbox_id = self.world.inbox_ids.get(inbox, inbox)
        held = Held(answer["lease_id"], inbox_id, process, seconds, now + seconds, counts, set(deliveries))
        self.leases[held.lease_id] = held
        for message_id in counts:
            self.deliveries[inbox_id, message_id].append(held)
        held.has_twice = len(counts) < len(answer["results"])

    def handed_off(self, process: Process, lease_id: str, ends_at: float) -> None:
        """A process is given the lease of a trigger."""
        held = self.leases[lease_id]
        if held.process.harmed:
            process.harm(held.process.harmed)
        if held.until - self.world.scheduler.now < 2 * MARGIN_SECONDS:
            process.harm("resumed late")
            held.is_short = True
        held.process = process
        held.is_at_work = True
        held.known_until = ends_at
        held.is_late = ends_at - MARGIN_SECONDS <= self.world.scheduler.now
        process.seen.leases.append(held)

    def lease_answered(self, process: Process, lease_id: str, sent_at: float) -> None:
        """A process knows of its lease."""
        held = self.leases[lease_id]
        held.process, held.is_at_work = process, not process.seen.is_trigger
        # A process does not know when its request took effect.
        held.is_doubtful = process.frozen_until >= sent_at
        held.known_until = sent_at + held.seconds
        process.seen.leases.append(held)

    def _left_until(self, seen: Seen) -> float:
        """When the first message that a poll left to its lease is redelivered."""
        leases = seen.leases[seen.leases_before :]
        return min(
            (held.until for held in leases if any(self._is_left(held, id_) for id_ in held.counts)),
            default=inf,
        )

    def _is_left(self, held: Held, message_id: str) -> bool:
        """Whether a message is left to its lease, as it is neither a run nor a dead letter."""
        is_fit = message_id not in held.refused and not self.world.is_odd(held.inbox_id, message_id)
        return not is_fit and not self.dead_letters.get((held.inbox_id, message_id))

    # Acknowledging and releasing

    def end_issued(self, process: Process, what: str, lease_id: str, ids: Sequence[str] | None) -> None:
        held = self.leases[lease_id]
        held.ended, ended = True, held.counts if ids is None else ids
        if what == "acknowledge":
            process.seen.owes_acknowledgement = False
        if what == "release":
            held.released.update(ended)
            again = [] if held.has_twice or process.stopped else sorted(held.refused.intersection(ended))
            self.must(not again, process, 5, f"releases {again}, which the next try would lease at once")

    def end_answered(
        self,
        process: Process,
        what: str,
        lease_id: str,
        ids: Sequence[str] | None,
        error: WorkflowError | None,
    ) -> None:
        held, seen = self.leases[lease_id], process.seen
        chosen = list(held.counts if ids is None else ids)
        if error is not None:
            held.unended.update(chosen)
        if what == "acknowledge":
            for message_id in chosen:
                if error is None:
                    seen.failed_acks.pop((lease_id, message_id), None)
                else:
                    seen.failed_acks[lease_id, message_id] = error
            seen.has_failed_ack = seen.has_failed_ack or error is not None

    def acknowledged(self, process: Process, inbox: str, lease_id: str, ids: list[str]) -> None:
        """An acknowledgement took effect."""
        held = self.leases[lease_id]
        for message_id in ids:
            key = held.inbox_id, message_id
            has_one = self._has_run_or_dead_letter(key)
            self.must(has_one, process, 1, f"{message_id} is acknowledged, and has no run")
            held.acknowledged.add(message_id)
            self.done.add(key)

    def _has_run_or_dead_letter(self, key: Key) -> bool:
        return bool(self.runs.get(self.world.identity(key)) or self.dead_letters.get(key))

    def _is_to_be_acknowledged(self, key: Key) -> bool:
        """Whether it has a run or a dead letter, and no delivery of it is acknowledged."""
        return key not in self.done and self._has_run_or_dead_letter(key)

    # Processes

    def poll_began(self, process: Process) -> None:
        seen: Seen = process.seen
        seen.polls += 1
        seen.failed = seen.troubled = seen.owes_acknowledgement = seen.source_in_trouble = False
        seen.leases_before, seen.faulty = len(seen.leases), None
        seen.started.clear()
        seen.found.clear()
        seen.rejected_by.clear()
        seen.failed_acks.clear()

    def poll_ended(self, process: Process, error: BaseException | None) -> None:
        """A poll ended, with an error or without."""
        seen: Seen = process.seen
        if isinstance(error, Exception | None) and not process.stopped:
            sent = not seen.owes_acknowledgement
            self.must(sent, process, 7, "does not send an acknowledgement again that failed")
        if error is None:
            ids = sorted(message_id for _, message_id in seen.failed_acks)
            # A source in trouble makes a sensor wait: it may be an alarm later.
            self.must(
                not ids or seen.source_in_trouble,
                process,
                7,
                f"succeeds although the acknowledgement of {ids} failed",
            )
            self.must(not seen.unproven, process, 4, "succeeds although a target rejected all it was asked")
        if isinstance(error, TargetError):
            seen.attempt += 1
            # What it defers for is probed again.
            seen.started.clear()
            seen.found.clear()
            seen.rejected_by.clear()
            seen.failed = False

    def process_ended(self, process: Process, outcome: object) -> None:
        """A process ended by itself, after an error or without."""
        now = self.world.scheduler.now
        for held in process.seen.leases:
            # A lease that was handed off too late may hold its messages by the clock of the service.
            late = held.is_late and (process.stopped or isinstance(outcome, TaskTimeout))
            self.must(late or held.ended or not held.is_late, process, 7, "does not release a late hand-off")
            if held.known_until > now + MARGIN_SECONDS + 10.0 and not process.stopped:
                self._must_be_released(process, held)
            in_time = now < held.known_until - MARGIN_SECONDS
            undisturbed = not (process.harmed or process.seen.has_failed_ack)
            if undisturbed and in_time and self.world.plan.max_unfinished_runs is None:
                self._must_be_acknowledged(process, held)

    def _must_be_released(self, process: Process, held: Held) -> None:
        rest = [
            each
            for each in self.world.still_leased(held.inbox_id, held.lease_id)
            if each not in held.attempted
            and each not in held.unended
            and not self.world.is_odd(held.inbox_id, each)
        ]
        if self.world.plan.dead_letter_dag_id is not None:
            last = [each for each in rest if held.counts[each] >= LAST_SAFE_DELIVERY]
            self.must(not last, process, 7, f"ends without a try of {last}, on their last safe delivery")
        # If Airflow does not answer, one message stays leased: released, the next try would lease it at once.
        most = 1 if process.seen.troubled else 0
        self.must(len(rest) <= most, process, 7, f"ends, and leaves {rest} leased, which it did not attempt")

    def _must_be_acknowledged(self, process: Process, held: Held) -> None:
        odd = any(
            self.world.is_odd(lease.inbox_id, each) for lease in process.seen.leases for each in lease.counts
        )
        rest = [
            message_id
            for message_id in sorted(set(held.counts) - held.acknowledged)
            if not odd or self._is_to_be_acknowledged((held.inbox_id, message_id))
        ]
        self.must(not rest, process, 8, f"ends undisturbed, and {rest} are not acknowledged")

    def held_by(self, process: Process, message_id: str) -> Held | None:
        """The latest lease of a message by a process."""
        seen: Seen = process.seen
        return next((held for held in reversed(seen.leases) if message_id in held.counts), None)
