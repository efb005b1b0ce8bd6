"""
What is observed in a history, and the rules that must hold at each moment.

1. A message is acknowledged only if it has a run or a dead letter at that moment.
4. A process that has not started a run since it began, or since its target failed, leases one message at a
   time (the pilot); if an earlier try found the target broken, for an hour. Therefore, while a target is
   broken, a process that has no proof spends one delivery per poll at most. One that had started runs before
   spends what it holds, and what it leases until it is told: at most 20 messages that are rejected, and the
   rest of two leases. With dead letters a try that follows no broken one may spend one more.
5. After the target failed, a poll leases nothing more; nor after an acknowledgement failed permanently, nor
   messages again that it has left to their lease.
7. A process that ends has released what it did not attempt, and has sent a failed acknowledgement again, or
   raises its error.
8. A process that nothing disturbed, and that ends before the safety margin of its lease begins, leaves no
   message without an acknowledgement.
9. A single listener leases no more than its target has capacity for.

``starts.py`` has the rules for the start of a run, and ``invariants.py`` those for the end of a history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.client.errors import NotFoundError, WorkflowError
from tests.simulation.answers import is_transient
from tests.simulation.held import MARGIN_SECONDS, MOST_REJECTED_IN_A_ROW, Held, Key, Seen
from tests.simulation.letters import Letters
from tests.simulation.scheduler import TaskTimeout
from tests.simulation.starts import Starts

if TYPE_CHECKING:
    from tests.simulation.airflow import Run
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World

PILOT_SECONDS = 3600


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
        self.done: set[Key] = set()
        self.starts = Starts(world, self)
        self.letters = Letters(world, self)

    def must(self, holds: bool, process: Process | None, rule: int, text: str) -> None:
        """Note that a rule does not hold."""
        if not holds and not self.violation:
            self.violation = f"rule {rule}: {process.name + ': ' if process else ''}{text}"
            self.world.note(process, "VIOLATION", self.violation)

    # Leasing

    def lease_issued(self, process: Process, in_main: bool, limit: int, seconds: int) -> None:
        seen: Seen = process.seen
        if seen.old:
            return
        if not seen.proven:
            self.must(limit <= 1, process, 4, f"leases {limit} messages without proof that runs start")
            if seen.careful or seen.unknown:
                self.must(seconds >= PILOT_SECONDS, process, 4, f"leases its pilot for {seconds} s only")
        if in_main:
            now = self.world.scheduler.now - MARGIN_SECONDS / 2
            self.must(not seen.failed, process, 5, "leases after its target failed")
            self.must(not seen.ack_failed_for_good, process, 5, "leases after an acknowledgement failed")
            if not process.delayed_until:
                self.must(now < seen.left_until, process, 5, "leases messages again that it left")
        if self.world.plan.is_alone and process.delayed_until == 0:
            capacity = self.world.capacity()
            self.must(limit <= capacity, process, 9, f"leases {limit} messages with capacity for {capacity}")

    def leased(self, process: Process, inbox: str, answer: dict[str, Any], seconds: int) -> None:
        """A lease took effect."""
        counts = {
            each["id"]: each["message_attributes"]["lease_count"]
            for each in answer["results"]
            if "id" in each
        }
        now = self.world.scheduler.now
        inbox_id = self.world.inbox_ids.get(inbox, inbox)
        held = Held(answer["lease_id"], inbox_id, process, seconds, now + seconds, counts)
        self.leases[held.lease_id] = held
        for message_id in counts:
            self.deliveries[inbox_id, message_id].append(held)
        held.has_twice = len(counts) < len(answer["results"])
        held.while_broken = self.world.is_broken(process.seen.dag_ids)

    def handed_off(self, process: Process, lease_id: str, ends_at: float) -> None:
        """A process is given the lease of a trigger."""
        held = self.leases[lease_id]
        if held.process.seen.old:
            process.harm("more than a pilot was handed off")
            held.is_short = True
        if held.process.harmed:
            process.harm(held.process.harmed)
        if held.until - self.world.scheduler.now < 2 * MARGIN_SECONDS:
            process.harm("resumed late")
            held.is_short = True
        held.process = process
        held.is_handed_off = held.is_at_work = True
        held.known_until = ends_at
        held.is_late = ends_at - MARGIN_SECONDS <= self.world.scheduler.now
        process.seen.leases.append(held)

    def lease_answered(self, process: Process, lease_id: str, sent_at: float) -> None:
        """A process knows of its lease."""
        held = self.leases[lease_id]
        held.answered, held.is_at_work = True, not process.seen.is_trigger
        held.process = process
        # A process does not know when its request took effect.
        held.is_doubtful = process.frozen_until >= sent_at
        held.known_until = sent_at + held.seconds
        seen: Seen = process.seen
        seen.leases.append(held)
        if any(self._is_left(held.inbox_id, each) for each in held.counts):
            seen.left_until = min(seen.left_until, held.until)
        if held.while_broken and not (seen.proven or seen.old or process.delayed_until):
            seen.spent += sum(self._spends(held.inbox_id, each) for each in held.counts)
            # With several targets, one that works already is not to blame for a message that it rejects.
            holds = seen.spent <= (MOST_REJECTED_IN_A_ROW if seen.started else max(1, seen.allowed))
            text = f"spent {seen.spent} deliveries on a broken target in {seen.polls} polls"
            self.must(holds, process, 4, text)

    def _spends(self, inbox_id: str, message_id: str) -> bool:
        """Whether a delivery of a message is spent while its target is broken."""
        key = inbox_id, message_id
        ends = self.world.is_odd(*key) or self.letters.is_proven(key) or self.dead_letters.get(key)
        return not ends

    def _is_left(self, inbox_id: str, message_id: str) -> bool:
        """Whether a message is left to its lease, as it is neither a run nor a dead letter."""
        return self.world.is_odd(inbox_id, message_id) and not self.dead_letters.get((inbox_id, message_id))

    # Acknowledging and releasing

    def end_issued(self, process: Process, what: str, lease_id: str, ids: Sequence[str] | None) -> None:
        held = self.leases[lease_id]
        held.ended, ended = True, held.counts if ids is None else ids
        if what == "release":
            held.released.update(ended)
            again = [] if held.has_twice else sorted(held.refused.intersection(ended))
            self.must(not again, process, 5, f"releases {again}, which the next try would lease at once")
        else:
            held.high.difference_update(ended)

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
            # The inbox may be gone, and then so are its messages.
            gone = isinstance(error, NotFoundError)
            for message_id in chosen:
                if error is None or gone:
                    seen.failed_acks.pop((lease_id, message_id), None)
                else:
                    seen.failed_acks[lease_id, message_id] = error
            if error is not None and not gone and not is_transient(error):
                seen.ack_failed_for_good = True

    def acknowledged(self, process: Process, inbox: str, lease_id: str, ids: list[str]) -> None:
        """An acknowledgement took effect."""
        held = self.leases[lease_id]
        for message_id in ids:
            key = held.inbox_id, message_id
            has_one = bool(self.runs.get(key) or self.dead_letters.get(key))
            self.must(has_one, process, 1, f"{message_id} is acknowledged, and has no run")
            held.acknowledged.add(message_id)
            self.done.add(key)

    # Processes

    def poll_began(self, process: Process) -> None:
        seen: Seen = process.seen
        seen.polls += 1
        if seen.failed:
            # The check is repeated, and the pilot, as this process knows that its target failed.
            seen.careful = True
            seen.started.clear()
            seen.found = False
            seen.failed = False
        seen.ack_failed_for_good, seen.left_until, seen.rejected_in_a_row = False, float("inf"), 0
        seen.troubled = False
        seen.failed_acks.clear()
        seen.doubts = 0
        seen.allowed += 2 if self.world.plan.dead_letter_dag_id and not seen.careful else 1

    def poll_ended(self, process: Process, error: BaseException | None) -> None:
        """A poll ended, with an error or without."""
        seen: Seen = process.seen
        if error is None:
            ids = sorted(message_id for _, message_id in seen.failed_acks)
            self.must(not ids, process, 7, f"succeeds although the acknowledgement of {ids} failed")

    def process_ended(self, process: Process, outcome: object) -> None:
        """A process ended by itself, after an error or without."""
        now = self.world.scheduler.now
        for held in process.seen.leases:
            # A lease that was handed off too late may hold its messages by the clock of the service.
            late = held.is_late and isinstance(outcome, TaskTimeout)
            self.must(late or held.ended or not held.is_late, process, 7, "does not release a late hand-off")
            if held.known_until > now + MARGIN_SECONDS + 10.0:
                self._must_be_released(process, held)
            in_time = now < held.known_until - MARGIN_SECONDS
            if not process.harmed and in_time and self.world.plan.max_unfinished_runs is None:
                self._must_be_acknowledged(process, held)

    def _must_be_released(self, process: Process, held: Held) -> None:
        rest = [
            each
            for each in self.world.still_leased(held.inbox_id, held.lease_id)
            if each not in held.attempted
            and each not in held.unended
            and not self.world.is_odd(held.inbox_id, each)
        ]
        # If the check of the targets fails, one message of a hand-off stays leased; and so does the next one
        # if Airflow does not count the runs of a target that is not proven.
        seen: Seen = process.seen
        checked = not held.is_handed_off or held.attempted
        most = 0 if checked and (seen.started or not seen.troubled) else 1
        self.must(len(rest) <= most, process, 7, f"ends, and leaves {rest} leased, which it did not attempt")

    def _must_be_acknowledged(self, process: Process, held: Held) -> None:
        odd = any(
            self.world.is_odd(lease.inbox_id, each) for lease in process.seen.leases for each in lease.counts
        )
        rest = sorted(set(held.counts) - held.acknowledged)
        self.must(odd or not rest, process, 8, f"ends undisturbed, and {rest} are not acknowledged")

    def held_by(self, process: Process, message_id: str) -> Held | None:
        """The latest lease of a message by a process."""
        seen: Seen = process.seen
        return next((held for held in reversed(seen.leases) if message_id in held.counts), None)
