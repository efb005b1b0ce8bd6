"""
What is observed of runs as they are started, and the rules for that.

2. A message never has a second run, in any DAG, nor a run and a dead letter, with one exception: its process
   was frozen for longer than its lease when it sent the dead letter. The id of a run follows from the ids of
   message and inbox, and its conf has that message.
3. A run is not started in the last 30 s of its lease, nor later, unless its process was frozen.
6. The message with the highest delivery count is started first; after a rejected one that with the lowest,
   until a run is started. One with a high delivery count is acknowledged before the next run is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.answers import is_about_the_run
from tests.simulation.held import MARGIN_SECONDS, MOST_REJECTED_IN_A_ROW, Held, Seen, key_of, run_id_of
from tests.simulation.plan import NORMAL, POISON

if TYPE_CHECKING:
    from tests.simulation.airflow import Run
    from tests.simulation.ledger import Ledger
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World

HIGH_DELIVERY_COUNT = 3
ASKED_ABOUT_BEFORE = ("state", "set state", "delete state", "previous run of", "count")


class Starts:
    """Observes the starts of a history."""

    def __init__(self, world: World, ledger: Ledger) -> None:
        self.world = world
        self.ledger = ledger

    def issued(self, process: Process, dag_id: str, conf: dict[str, Any]) -> None:
        message_id = key_of(conf)[1]
        held = self.ledger.held_by(process, message_id)
        if held is None:
            self._must(False, process, 3, f"starts a run of {message_id}, which it has not leased")
            return
        if not held.has_twice:
            self._must_be_in_order(process, held, message_id)
        if held.high and not process.pending and not held.has_twice:
            self._must(False, process, 6, f"starts {message_id} before it acknowledges {sorted(held.high)}")
        looked = process.seen.looked
        same = looked[0] == (held.lease_id, message_id)
        checked_at = looked[1] if same else process.seen.read_at or self.world.scheduler.now
        process.seen.read_at = 0.0
        left = held.known_until - checked_at
        if checked_at - process.frozen_until > MARGIN_SECONDS and not held.is_doubtful:
            self._must(
                left >= MARGIN_SECONDS, process, 3, f"starts {message_id} {left:.0f} s before its lease ends"
            )
        held.attempted.add(message_id)
        process.seen.starting = held, message_id, dag_id

    def _must_be_in_order(self, process: Process, held: Held, message_id: str) -> None:
        """The highest delivery count is first; after a rejected message the lowest one."""
        rest = [
            count
            for each, count in held.counts.items()
            if each not in held.attempted
            and each not in held.released
            and self.world.messages[held.inbox_id, each].kind in (NORMAL, POISON)
        ]
        count = held.counts[message_id]
        if process.seen.rejected_in_a_row:
            in_order, others = count <= min(rest, default=count), "lower"
        else:
            in_order, others = count >= max(rest, default=count), "higher"
        self._must(in_order, process, 6, f"starts {message_id} on delivery {count} before a {others} one")

    def looked_for(self, process: Process, run_ids: list[str]) -> None:
        """A process asks whether a message has a run of an earlier delivery."""
        message_id = run_ids[0].removeprefix("workflow__dead__").removeprefix("workflow__").split("__")[0]
        if (held := self.ledger.held_by(process, message_id)) is not None:
            process.seen.looks_again = message_id in held.refused
            held.attempted.add(message_id)
            if process.seen.looked[0] != (held.lease_id, message_id):
                moment = process.seen.read_at or self.world.scheduler.now
                process.seen.looked = (held.lease_id, message_id), moment
                process.seen.read_at = 0.0

    def takes_effect(self, process: Process, conf: dict[str, Any]) -> None:
        held, now = self.ledger.held_by(process, key_of(conf)[1]), self.world.scheduler.now
        if held is None or held.is_doubtful:
            return
        if now >= held.until and now - process.frozen_until > MARGIN_SECONDS:
            text = f"starts a run of {key_of(conf)[1]} {now - held.until:.1f} s after its lease expired"
            self._must(False, process, 3, text)

    def answered(self, process: Process, dag_id: str, conf: dict[str, Any], existing: bool) -> None:
        """A process knows that a run exists."""
        seen: Seen = process.seen
        message_id = key_of(conf)[1]
        held = self.ledger.held_by(process, message_id)
        if held is not None and held.counts[message_id] >= HIGH_DELIVERY_COUNT:
            held.high.add(message_id)
        seen.rejected_in_a_row = 0
        seen.spent = seen.doubts = 0
        if existing:
            seen.found = True
        else:
            seen.started.add(dag_id)
            if seen.started.issuperset(seen.dag_ids):
                seen.careful = False
                seen.found = True

    def found(self, process: Process, dag_id: str) -> None:
        """A process knows that a run of an earlier delivery exists."""
        seen: Seen = process.seen
        if seen.looks_again:
            # Airflow stored the run, and answered with an error: a rejection, as far as the process knows.
            return
        seen.found = True
        seen.spent = seen.rejected_in_a_row = 0

    def airflow_failed(self, process: Process, what: str, error: Any) -> None:
        """
        A process got an error from Airflow.

        :param error: None if the API server was away.
        """
        seen: Seen = process.seen
        detail = None if error is None else error.error.detail
        process.harm(f"Airflow: {what}")
        seen.troubled = True
        if what in ASKED_ABOUT_BEFORE:
            # It may not know what happened before, or not tell it.
            seen.allowed += seen.careful and self.world.plan.dead_letter_dag_id is not None
            seen.careful = seen.unknown = False
            seen.forgets = True
        if what == "look for":
            seen.failed = seen.failed or not seen.looks_again
        self.ledger.letters.airflow_failed(process, what, detail)
        if what != "start":
            return
        rejected = detail is not None and is_about_the_run(detail)
        if seen.starting is not None and (rejected or not (seen.started or seen.found)):
            held, message_id, _ = seen.starting
            held.refused.add(message_id)
        if rejected:
            self.ledger.letters.rejected(process)
            seen.rejected_in_a_row += 1
            most = seen.rejected_in_a_row <= MOST_REJECTED_IN_A_ROW
            self._must(most, process, 4, "goes on after 20 rejections in a row")
            seen.failed = seen.failed or not (seen.started or self.ledger.letters.may_try_another(seen))
        else:
            seen.failed = True

    def exists(self, process: Process, run: Run, conf: dict[str, Any]) -> None:
        """A run was found under the id of a message."""
        same = key_of(run.conf) == key_of(conf)
        self._must(
            same, process, 2, f"{key_of(conf)[1]} finds the run of another message or inbox: {run.run_id}"
        )

    def created(self, process: Process, run: Run) -> None:
        """A run of a target, or of the dead-letter DAG, was stored."""
        key = inbox_id, message_id = key_of(run.conf)
        message, earlier = (
            self.world.messages.get(key),
            [*self.ledger.runs[key], *self.ledger.dead_letters[key]],
        )
        if earlier and not self.ledger.letters.may_have_both(process, run, earlier):
            self._must(False, process, 2, f"a second run of {message_id}: {run.dag_id} {run.run_id}")
        self._must(message is not None, process, 2, f"a run of {message_id}, which the inbox never had")
        if run.dag_id == self.world.plan.dead_letter_dag_id:
            self.ledger.dead_letters[key].append(run)
            expected = run_id_of(f"dead__{message_id}", inbox_id)
            self._must(run.run_id == expected, process, 2, f"run id {run.run_id}")
            self.ledger.letters.created(process, run)
            return
        self.ledger.runs[key].append(run)
        self.ledger.letters.started(process, run)
        self._must(run.run_id == run_id_of(message_id, inbox_id), process, 2, f"run id {run.run_id}")
        if message is not None:
            self._must(
                message.kind == "normal", process, 2, f"a run of {message_id}, which is {message.kind}"
            )
            same = run.conf["message"]["payload"] == message.payload
            self._must(same, process, 2, f"the run of {message_id} has another payload")

    def _must(self, holds: bool, process: Process | None, rule: int, text: str) -> None:
        self.ledger.must(holds, process, rule, text)
