"""What is observed of dead letters, and when a message may become one."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.simulation.airflow import WORKING
from tests.simulation.answers import is_no_answer
from tests.simulation.held import MARGIN_SECONDS, Held, Key, Seen, key_of
from tests.simulation.plan import INVALID, NORMAL, POISON, UNMATCHED, UNROUTABLE

if TYPE_CHECKING:
    from tests.simulation.airflow import Run
    from tests.simulation.ledger import Ledger
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World

LAST_SAFE_DELIVERY = 4
BEFORE_A_DECISION = ("look for", "stored run", "count", "get")


class Letters:
    """
    Observes the dead letters of a history.

    :param rejections: of each message: which DAG rejected it, and in which poll of which process.
    :param starts: which DAG started runs in which poll of which process.
    :param asked: of each message: in which poll of which process its run was requested.
    :param excepted: messages that may have a run and a dead letter, as ``docs/promise.md`` says.
    """

    def __init__(self, world: World, ledger: Ledger) -> None:
        self.world = world
        self.ledger = ledger
        self.rejections: dict[Key, set[tuple[str, int, int]]] = defaultdict(set)
        self.starts: set[tuple[str, int, int]] = set()
        self.asked: dict[Key, set[tuple[int, int]]] = defaultdict(set)
        self.excepted: set[Key] = set()

    @property
    def is_dag_broken(self) -> bool:
        """Whether the dead-letter DAG takes no runs now."""
        return self.world.airflow.states.get(str(self.world.plan.dead_letter_dag_id), WORKING) != WORKING

    # What happens

    def rejected(self, process: Process, start: tuple[Held, str, str]) -> None:
        """A process knows that a target rejected a message."""
        held, message_id, dag_id = start
        self.rejections[held.inbox_id, message_id].add((dag_id, *_poll_of(process)))

    def ask(self, process: Process, key: Key) -> None:
        """A process requests the run of a message."""
        self.asked[key].add(_poll_of(process))

    def started(self, process: Process, run: Run) -> None:
        """A target started a run."""
        self.starts.add((run.dag_id, *_poll_of(process)))

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

    def may_have_both(self, process: Process, run: Run, earlier: list[Run]) -> bool:
        """
        Whether a message with a run may become a dead letter, or a dead letter get a run.

        Only if the process was frozen when it requested the second one, for longer than its lease.
        """
        seen, dead_letters = process.seen, self.world.plan.dead_letter_dag_id
        is_dead_letter = run.dag_id == dead_letters
        if len(earlier) > 1 or (earlier[0].dag_id == dead_letters) is is_dead_letter:
            return False
        if is_dead_letter and seen.dead_letter:
            held, _, issued_at = seen.dead_letter
        elif not is_dead_letter and seen.starting:
            held, issued_at = seen.starting[0], seen.starting_since
        else:
            return False
        if process.frozen_until < issued_at or self.world.scheduler.now < held.until:
            return False
        self.excepted.add(key_of(run.conf))
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
            asked = _poll_of(process) in self.asked[key]
            self._must(asked, process, 13, f"{key[1]} is a dead letter that its target was not asked about")
            holds = count >= LAST_SAFE_DELIVERY and message.kind in (NORMAL, POISON)
        else:
            at_fault = self._is_at_fault(process, key, message.kind, reason)
            holds = count >= plan.dead_letter_after and at_fault
        text = f"{message.kind} {key[1]} is a dead letter on delivery {count}: {reason}"
        self._must(holds, process, 13, text)

    def _is_at_fault(self, process: Process, key: Key, kind: str, reason: str) -> bool:
        if kind == UNMATCHED:
            return reason == "unmatched" and self.world.plan.unmatched == "dead_letter"
        if kind in (UNROUTABLE, INVALID):
            return reason == ("expression" if kind == UNROUTABLE else "invalid")
        # The same drain has started a run of the target that rejected the message.
        of_drain = {each for each in self.rejections[key] if each[1:] == _poll_of(process)}
        return reason == "rejected" and bool(of_drain & self.starts)

    def is_undecided(self, key: Key, held: Held) -> bool:
        """Whether a delivery of a message ended without a decision, by no fault of the package."""
        late = not held.is_at_work or held.is_late or held.is_short
        return late or held.process.stopped or key[1] in held.undecided

    def _must(self, holds: bool, process: Process, rule: int, text: str) -> None:
        self.ledger.must(holds, process, rule, text)


def _poll_of(process: Process) -> tuple[int, int]:
    return id(process), process.seen.polls
