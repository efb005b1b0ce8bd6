"""What is observed of dead letters, and when a message may become one."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.simulation.airflow import WORKING
from tests.simulation.answers import is_no_answer
from tests.simulation.held import MARGIN_SECONDS, Held, Key, Seen, key_of
from tests.simulation.plan import NORMAL, POISON, UNMATCHED, UNROUTABLE

if TYPE_CHECKING:
    from tests.simulation.airflow import Run
    from tests.simulation.ledger import Ledger
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World

LAST_SAFE_DELIVERY = 4
BEFORE_A_DECISION = ("look for", "count", "get", "check")
REASONS = {POISON: "rejected", UNROUTABLE: "expression", UNMATCHED: "unmatched"}
"""Why messages that are at fault themselves are dead letters."""


class Letters:
    """
    Observes the dead letters of a history.

    :param rejections: of each message: which DAG rejected it, and when.
    :param starts: when each DAG started runs.
    :param excepted: messages that may have a run and a dead letter, as ``docs/promise.md`` says.
    """

    def __init__(self, world: World, ledger: Ledger) -> None:
        self.world = world
        self.ledger = ledger
        self.rejections: dict[Key, list[tuple[float, str, Process]]] = defaultdict(list)
        self.starts: dict[str, list[tuple[float, Process]]] = defaultdict(list)
        self.excepted: set[Key] = set()

    @property
    def is_dag_broken(self) -> bool:
        """Whether the dead-letter DAG takes no runs now."""
        return self.world.airflow.states.get(str(self.world.plan.dead_letter_dag_id), WORKING) != WORKING

    # What happens

    def rejected(self, process: Process) -> None:
        """A process is told that a run is rejected, or that Airflow failed to start it."""
        if process.seen.starting is not None:
            held, message_id, dag_id = process.seen.starting
            self.rejections[held.inbox_id, message_id].append((self.world.scheduler.now, dag_id, process))

    def started(self, process: Process, run: Run) -> None:
        """A target started a run."""
        self.starts[run.dag_id].append((self.world.scheduler.now, process))

    def start_issued(self, process: Process, conf: dict[str, Any]) -> None:
        """A process requests the run of a dead letter."""
        message_id, now = key_of(conf)[1], self.world.scheduler.now
        held = self.ledger.held_by(process, message_id)
        if held is None:
            self._must(False, process, 3, f"starts a dead letter of {message_id}, which it has not leased")
            return
        process.seen.dead_letter = held, message_id, now
        left = held.known_until - now
        self._must(
            left >= MARGIN_SECONDS,
            process,
            3,
            f"starts a dead letter of {message_id} {left:.0f} s before its lease ends",
        )

    def airflow_failed(self, process: Process, what: str, detail: dict[str, Any] | None) -> None:
        """A process got an error from Airflow: about a dead letter, or before it could decide."""
        seen: Seen = process.seen
        if what == "dead letter" and seen.dead_letter is not None:
            held, message_id, _ = seen.dead_letter
            held.undecided.add(message_id)
        elif what in BEFORE_A_DECISION and (is_no_answer(detail) or self.is_dag_broken):
            for held in seen.leases:
                held.undecided.update(held.counts)

    def may_try_another(self, seen: Seen) -> bool:
        """
        Whether a rejection, by a target that has started nothing, may be the fault of the message.

        With dead letters a second message may be tried, unless a try before found the target broken.
        """
        if self.world.plan.dead_letter_dag_id is None or seen.starting is None:
            return False
        held, message_id, _ = seen.starting
        if self.is_proven((held.inbox_id, message_id)):
            return True
        seen.doubts += 1
        return not seen.careful and seen.doubts == 1

    def may_have_both(self, process: Process, run: Run, earlier: list[Run]) -> bool:
        """
        Whether a message with a run may become a dead letter.

        Only if its process was frozen when it sent the dead letter, for longer than its lease.
        """
        key, seen = key_of(run.conf), process.seen
        if run.dag_id != self.world.plan.dead_letter_dag_id or len(earlier) > 1 or not seen.dead_letter:
            return False
        held, _, issued_at = seen.dead_letter
        if process.frozen_until < issued_at or self.world.scheduler.now < held.until:
            return False
        self.excepted.add(key)
        return True

    # What must hold

    def created(self, process: Process, run: Run) -> None:
        """The run of a dead letter was stored."""
        key, reason = key_of(run.conf), run.conf["reason"]
        message, plan = self.world.messages[key], self.world.plan
        count = run.conf["delivery_count"]
        counts = {held.counts.get(key[1]) for held in process.seen.leases}
        same = json.loads(run.conf["message_json"])["payload"] == message.payload
        self._must(same, process, 13, f"the dead letter of {key[1]} has another payload")
        self._must(count in counts, process, 13, f"the dead letter of {key[1]} has another delivery count")
        if reason == "target":
            holds = count >= LAST_SAFE_DELIVERY and message.kind in (NORMAL, POISON)
        else:
            holds = count >= plan.dead_letter_after and self._is_at_fault(key, message.kind, reason)
        text = f"{message.kind} {key[1]} is a dead letter on delivery {count}: {reason}"
        self._must(holds, process, 13, text)

    def _is_at_fault(self, key: Key, kind: str, reason: str) -> bool:
        if kind == UNMATCHED:
            return reason == "unmatched" and self.world.plan.unmatched == "dead_letter"
        if kind == UNROUTABLE:
            return reason == "expression"
        return reason == "rejected" and (
            self._is_proven_precisely(key) if kind == NORMAL else self.is_proven(key)
        )

    def is_proven(self, key: Key) -> bool:
        """Whether a target has rejected a message, and started a run of another one since."""
        return any(
            started > at for at, dag_id, _ in self.rejections[key] for started, _ in self.starts[dag_id]
        )

    def _is_proven_precisely(self, key: Key) -> bool:
        """
        The same, where the message is sound: its target was broken for a time.

        Either it was broken again after that run, or the process that was told of the rejection started the
        run itself, of the same lease or of the next one.
        """
        rejections = self.rejections[key]
        for at, dag_id, process in rejections:
            since = [(start, by) for start, by in self.starts[dag_id] if start > at]
            again = max(again for again, dag, _ in rejections if dag == dag_id)
            if any(start < again or by is process for start, by in since):
                return True
        return False

    def is_undecided(self, key: Key, held: Held) -> bool:
        """Whether a delivery of a message ended without a decision, by no fault of the package."""
        late = not held.is_at_work or held.is_late or held.is_short
        return late or held.process.stopped or key[1] in held.undecided

    def _must(self, holds: bool, process: Process, rule: int, text: str) -> None:
        self.ledger.must(holds, process, rule, text)
