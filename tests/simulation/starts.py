"""
What is observed of runs as they are started, and the rules for that.

2. A message never has a second run, in any DAG, nor a run and a dead letter, with one exception: its process
   was frozen for longer than its lease when it sent the dead letter. Messages of an inbox with the same
   business key have one run together. The id of a run follows from the id of the inbox and that of the
   message or the key, and its conf has the message that started it.
3. A run is not started in the last 30 s of its lease, nor later, unless its process was frozen.
6. Of a lease the message with the highest delivery count is started first. After an acknowledgement failed,
   a message whose run is older than the lease is not started before one without a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.answers import is_about_the_run, is_server_fault
from tests.simulation.held import MARGIN_SECONDS, Held, Seen, key_of, run_id_of, run_id_of_key
from tests.simulation.plan import NORMAL, POISON

if TYPE_CHECKING:
    from tests.simulation.airflow import Run
    from tests.simulation.ledger import Ledger
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World


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
        process.seen.went_on()
        if not held.has_twice and not process.seen.has_failed_ack:
            self._must_be_in_order(process, held, message_id)
        if not held.has_twice and process.seen.failed_acks:
            self._must_start_those_without_a_run(process, held, message_id)
        left = held.known_until - self.world.scheduler.now
        if self.world.scheduler.now - process.frozen_until > MARGIN_SECONDS and not held.is_doubtful:
            self._must(
                left >= MARGIN_SECONDS, process, 3, f"starts {message_id} {left:.0f} s before its lease ends"
            )
        held.attempted.add(message_id)
        held.started.add(message_id)
        process.seen.starting = held, message_id, dag_id
        process.seen.starting_since = self.world.scheduler.now
        self.ledger.letters.ask(process, (held.inbox_id, message_id))

    def _must_be_in_order(self, process: Process, held: Held, message_id: str) -> None:
        rest = [
            count
            for each, count in held.counts.items()
            if each not in held.attempted
            and each not in held.released
            and self.world.messages[held.inbox_id, each].kind in (NORMAL, POISON)
        ]
        count = held.counts[message_id]
        in_order = count >= max(rest, default=count)
        self._must(in_order, process, 6, f"starts {message_id} on delivery {count} before a higher one")

    def _must_start_those_without_a_run(self, process: Process, held: Held, message_id: str) -> None:
        rest = [
            each
            for each in held.counts
            if each not in held.started
            and each not in held.released
            and not self.ledger.runs.get(self.world.identity((held.inbox_id, each)))
            and self.world.messages[held.inbox_id, each].kind == NORMAL
        ]
        leased_at = held.until - held.seconds
        identity = self.world.identity((held.inbox_id, message_id))
        has_run = self.ledger.run_times.get(identity, leased_at) < leased_at
        text = f"starts {message_id}, which has its run, before {rest}"
        self._must(not (has_run and rest), process, 6, text)

    def looked_for(self, process: Process, run_ids: list[str]) -> None:
        """A process asks whether a message has a run of an earlier delivery."""
        message_id = run_ids[0].removeprefix("workflow__dead__").removeprefix("workflow__").split("__")[0]
        if (held := self.ledger.held_by(process, message_id)) is not None:
            held.attempted.add(message_id)

    def takes_effect(self, process: Process, conf: dict[str, Any]) -> None:
        held, now = self.ledger.held_by(process, key_of(conf)[1]), self.world.scheduler.now
        if held is None or held.is_doubtful:
            return
        if now >= held.until and now - process.frozen_until > MARGIN_SECONDS:
            text = f"starts a run of {key_of(conf)[1]} {now - held.until:.1f} s after its lease expired"
            self._must(False, process, 3, text)

    def answered(self, process: Process, dag_id: str, existing: bool) -> None:
        """A process knows that a run exists."""
        if not existing:
            process.seen.started.add(dag_id)

    def found(self, process: Process, is_found: bool) -> None:
        """A process knows whether a target has a run of a message."""
        seen: Seen = process.seen
        faulty, seen.faulty = seen.faulty, None
        if faulty is not None and not is_found:
            self._rejected(process, faulty)

    def _rejected(self, process: Process, start: tuple[Held, str, str]) -> None:
        held, message_id, dag_id = start
        held.refused.add(message_id)
        process.seen.rejected_by.append(dag_id)
        self.ledger.letters.rejected(process, start)

    def airflow_failed(self, process: Process, what: str, error: Any) -> None:
        """
        A process got an error from Airflow.

        :param error: None if the API server was away.
        """
        seen: Seen = process.seen
        detail = None if error is None else error.error.detail
        process.harm(f"Airflow: {what}")
        seen.troubled = True
        self.ledger.letters.airflow_failed(process, what, detail)
        if what in ("look for", "stored run"):
            seen.faulty = None
        if what != "start" or seen.starting is None:
            return
        if detail is not None and is_server_fault(detail):
            seen.faulty = seen.starting
        elif detail is not None and is_about_the_run(detail):
            self._rejected(process, seen.starting)
        else:
            held, message_id, _ = seen.starting
            held.refused.add(message_id)
            seen.failed = True

    def exists(self, process: Process, run: Run, conf: dict[str, Any]) -> None:
        """A run was found under the id of a message."""
        same = self.world.identity(key_of(run.conf)) == self.world.identity(key_of(conf))
        self._must(
            same, process, 2, f"{key_of(conf)[1]} finds the run of another message or inbox: {run.run_id}"
        )

    def created(self, process: Process, run: Run) -> None:
        """A run of a target, or of the dead-letter DAG, was stored."""
        key = inbox_id, message_id = key_of(run.conf)
        message, identity = self.world.messages.get(key), self.world.identity(key)
        earlier = [*self.ledger.runs[identity], *self.ledger.dead_letters[key]]
        if earlier and not self.ledger.letters.may_have_both(process, run, earlier):
            self._must(False, process, 2, f"a second run of {message_id}: {run.dag_id} {run.run_id}")
        self._must(message is not None, process, 2, f"a run of {message_id}, which the inbox never had")
        if run.dag_id == self.world.plan.dead_letter_dag_id:
            self.ledger.dead_letters[key].append(run)
            expected = run_id_of(message_id, inbox_id, "workflow__dead__")
            self._must(run.run_id == expected, process, 2, f"run id {run.run_id}")
            self.ledger.letters.created(process, run)
            return
        self.ledger.runs[identity].append(run)
        self.ledger.run_times.setdefault(identity, self.world.scheduler.now)
        self.ledger.letters.started(process, run)
        expected = run_id_of(message_id, inbox_id)
        if identity != key and message is not None:
            expected = run_id_of_key(message.payload["key"], inbox_id)
        self._must(run.run_id == expected, process, 2, f"run id {run.run_id}")
        if message is not None:
            self._must(
                message.kind == "normal", process, 2, f"a run of {message_id}, which is {message.kind}"
            )
            same = run.conf["message"]["payload"] == message.payload
            self._must(same, process, 2, f"the run of {message_id} has another payload")

    def _must(self, holds: bool, process: Process | None, rule: int, text: str) -> None:
        self.ledger.must(holds, process, rule, text)
