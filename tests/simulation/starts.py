"""
What is observed of runs as they are started, of targets and of the dead-letter DAG, and the rules for that.

2. A message never has a second run, in any DAG, nor a run and a dead letter, with one exception: its process
   was frozen for longer than its lease when it sent the dead letter. Messages of an inbox with the same
   business key have one run together. The id of a run follows from the id of the inbox and that of the
   message or the key, and its conf has the message that started it.
3. A run is not started in the last 30 s of its lease, nor later, unless its process was frozen.
6. Of a lease the message with the highest delivery count is started first. After an acknowledgement failed,
   a message whose run is older than the lease is not started before one without a run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.simulation.airflow import DEAD_LETTER, WORKING
from tests.simulation.held import MARGIN_SECONDS, Held, Key, Seen, key_of, run_id_of, run_id_of_key
from tests.simulation.keys import runs_of
from tests.simulation.plan import INVALID, NORMAL, POISON, SLOW, UNMATCHED, UNROUTABLE

if TYPE_CHECKING:
    from tests.simulation.airflow import Run
    from tests.simulation.ledger import Ledger
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World

LAST_SAFE_DELIVERY = 4
BEFORE_A_DECISION = ("look for", "stored run", "count", "get")


class Starts:
    """
    Observes the starts of a history.

    :param rejections: of each message: which DAG rejected it, and in which poll of which process.
    :param taken: which DAG started runs in which poll of which process.
    :param asked: of each message: in which poll of which process its run was requested.
    :param excepted: messages that may have a run and a dead letter, as ``docs/promise.md`` says.
    """

    def __init__(self, world: World, ledger: Ledger) -> None:
        self.world = world
        self.ledger = ledger
        self.must = ledger.must
        self.rejections: dict[Key, set[tuple[str, int, int]]] = defaultdict(set)
        self.taken: set[tuple[str, int, int]] = set()
        self.asked: dict[Key, set[tuple[int, int]]] = defaultdict(set)
        self.excepted: set[Key] = set()

    # Requests

    def issued(self, process: Process, dag_id: str, conf: dict[str, Any]) -> None:
        """A process requests the run of a message."""
        message_id, now = key_of(conf)[1], self.world.scheduler.now
        held = self.ledger.held_by(process, message_id)
        if held is None:
            self.must(False, process, 3, f"starts a run of {message_id}, which it has not leased")
            return
        process.seen.went_on()
        if not held.has_twice and not process.seen.has_failed_ack:
            self._must_be_in_order(process, held, message_id)
        if not held.has_twice and process.seen.failed_acks:
            self._must_start_those_without_a_run(process, held, message_id)
        left = held.known_until - now
        if now - process.frozen_until > MARGIN_SECONDS and not held.is_doubtful:
            text = f"starts {message_id} {left:.0f} s before its lease ends"
            self.must(left >= MARGIN_SECONDS, process, 3, text)
        held.attempted.add(message_id)
        held.started.add(message_id)
        process.seen.starting, process.seen.starting_since = (held, message_id, dag_id), now
        self.asked[held.inbox_id, message_id].add(_poll_of(process))

    def dead_letter_issued(self, process: Process, conf: dict[str, Any]) -> None:
        """A process requests the run of a dead letter."""
        message_id, now = key_of(conf)[1], self.world.scheduler.now
        held = self.ledger.held_by(process, message_id)
        if held is None:
            self.must(False, process, 3, f"starts a dead letter of {message_id}, which it has not leased")
            return
        process.seen.dead_letter = held, message_id, now
        left = held.known_until - now
        text = f"starts a dead letter of {message_id} {left:.0f} s before its lease ends"
        self.must(left >= MARGIN_SECONDS, process, 3, text)

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
        self.must(in_order, process, 6, f"starts {message_id} on delivery {count} before a higher one")

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
        self.must(not (has_run and rest), process, 6, text)

    def looked_for(self, process: Process, run_ids: list[str]) -> None:
        """A process asks whether a message, or its business key, has a run."""
        for held in process.seen.leases if run_ids[0].startswith("workflow__key__") else ():
            for each in held.counts:
                key = self.world.messages[held.inbox_id, each].payload.get("key")
                if run_id_of_key(key, held.inbox_id) == run_ids[0]:
                    held.attempted.add(each)
        message_id = run_ids[0].removeprefix("workflow__dead__").removeprefix("workflow__").split("__")[0]
        if (held := self.ledger.held_by(process, message_id)) is not None:
            held.attempted.add(message_id)

    # Answers

    def answered(self, process: Process, dag_id: str, existing: bool) -> None:
        """A process knows that a run exists."""
        (process.seen.found if existing else process.seen.started).add(dag_id)

    def found(self, process: Process, dag_id: str, is_found: bool) -> None:
        """A process knows whether a target has a run of a message."""
        seen: Seen = process.seen
        faulty, seen.faulty = seen.faulty, None
        if is_found:
            seen.found.add(dag_id)
        if faulty is not None and not is_found:
            self._rejected(process, faulty)

    def _rejected(self, process: Process, start: tuple[Held, str, str]) -> None:
        """A process knows that a target rejected a message."""
        held, message_id, dag_id = start
        held.refused.add(message_id)
        process.seen.found.discard(dag_id)
        process.seen.rejected_by.append((dag_id, held.counts[message_id] == 1))
        self.rejections[held.inbox_id, message_id].add((dag_id, *_poll_of(process)))

    def airflow_failed(self, process: Process, what: str, error: Any) -> None:
        """
        A process got an error from Airflow.

        :param error: None if the API server was away.
        """
        seen: Seen = process.seen
        detail = {} if error is None else error.error.detail
        process.harm(f"Airflow: {what}")
        seen.troubled = True
        if what == DEAD_LETTER and seen.dead_letter is not None:
            held, message_id, _ = seen.dead_letter
            held.undecided.add(message_id)
        elif what in BEFORE_A_DECISION and (
            not detail or detail.get("status_code") == 503 or self._is_dead_letter_dag_broken
        ):
            for held in seen.leases:
                held.undecided.update(held.counts)
        if what in ("look for", "stored run"):
            seen.faulty = None
        if what != "start" or seen.starting is None:
            return
        inner = detail.get("detail", {}).get("detail")
        if detail.get("exception_type") == "HTTPStatusError" or detail.get("status_code") == 503:
            # An error of the server: the run may be stored.
            seen.faulty = seen.starting
        elif isinstance(inner, dict) and inner.get("reason") == "value_error":
            self._rejected(process, seen.starting)
        else:
            held, message_id, _ = seen.starting
            held.refused.add(message_id)
            seen.failed = True

    @property
    def _is_dead_letter_dag_broken(self) -> bool:
        return self.world.airflow.states.get(str(self.world.plan.dead_letter_dag_id), WORKING) != WORKING

    # Effects

    def takes_effect(self, process: Process, conf: dict[str, Any]) -> None:
        held, now = self.ledger.held_by(process, key_of(conf)[1]), self.world.scheduler.now
        if held is None or held.is_doubtful:
            return
        if now >= held.until and now - process.frozen_until > MARGIN_SECONDS:
            text = f"starts a run of {key_of(conf)[1]} {now - held.until:.1f} s after its lease expired"
            self.must(False, process, 3, text)

    def exists(self, process: Process, run: Run, conf: dict[str, Any]) -> None:
        """A run was found under the id of a message."""
        same = self.world.identity(key_of(run.conf)) == self.world.identity(key_of(conf))
        text = f"{key_of(conf)[1]} finds the run of another message or inbox: {run.run_id}"
        self.must(same, process, 2, text)

    def created(self, process: Process, run: Run) -> None:
        """A run of a target, or of the dead-letter DAG, was stored."""
        key = inbox_id, message_id = key_of(run.conf)
        message, identity = self.world.messages.get(key), self.world.identity(key)
        is_dead_letter = run.dag_id == self.world.plan.dead_letter_dag_id
        earlier = self.ledger.runs[identity]
        earlier = [*(runs_of(key, earlier) if is_dead_letter else earlier), *self.ledger.dead_letters[key]]
        if earlier and not self._may_have_both(process, run, earlier):
            self.must(False, process, 2, f"a second run of {message_id}: {run.dag_id} {run.run_id}")
        self.must(message is not None, process, 2, f"a run of {message_id}, which the inbox never had")
        if is_dead_letter:
            self.ledger.dead_letters[key].append(run)
            expected = run_id_of(message_id, inbox_id, "workflow__dead__")
            self.must(run.run_id == expected, process, 2, f"run id {run.run_id}")
            self._must_be_decided(process, key, run.conf)
            return
        self.ledger.runs[identity].append(run)
        self.ledger.run_times.setdefault(identity, self.world.scheduler.now)
        self.taken.add((run.dag_id, *_poll_of(process)))
        expected = run_id_of(message_id, inbox_id)
        if identity != key and message is not None:
            expected = run_id_of_key(message.payload["key"], inbox_id)
        self.must(run.run_id == expected, process, 2, f"run id {run.run_id}")
        if message is not None:
            is_sound = message.kind == NORMAL
            self.must(is_sound, process, 2, f"a run of {message_id}, which is {message.kind}")
            same = run.conf["message"]["payload"] == message.payload
            self.must(same, process, 2, f"the run of {message_id} has another payload")

    def _may_have_both(self, process: Process, run: Run, earlier: list[Run]) -> bool:
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

    # Dead letters

    def _must_be_decided(self, process: Process, key: Key, conf: dict[str, Any]) -> None:
        """Rule 13, for a dead letter that was stored."""
        message, reason, count = self.world.messages[key], conf["reason"], conf["delivery_count"]
        is_its = any((key[1], count) in held.deliveries for held in process.seen.leases)
        same = json.loads(conf["message_json"])["payload"] == message.payload
        self.must(same, process, 13, f"the dead letter of {key[1]} has another payload")
        self.must(is_its, process, 13, f"the dead letter of {key[1]} has another delivery count")
        if reason == "target":
            asked = _poll_of(process) in self.asked[key]
            self.must(asked, process, 13, f"{key[1]} is a dead letter that its target was not asked about")
            holds = count >= LAST_SAFE_DELIVERY and message.kind in (NORMAL, POISON)
        elif reason == "undecided":
            before = self.ledger.deliveries[key][-2:-1]
            undecided = all(self.is_undecided(key, held) for held in before)
            is_excused = message.kind != NORMAL or not self.world.plan.spares_sound
            holds = count > LAST_SAFE_DELIVERY and undecided and is_excused
        else:
            at_fault = self._is_at_fault(process, key, message.kind, reason)
            is_due = count >= self.world.plan.dead_letter_after or self.world.plan.omits_counts
            holds = is_due and at_fault
        text = f"{message.kind} {key[1]} is a dead letter on delivery {count}: {reason}"
        self.must(holds, process, 13, text)

    def _is_at_fault(self, process: Process, key: Key, kind: str, reason: str) -> bool:
        if kind == UNMATCHED:
            return reason == "unmatched" and self.world.plan.unmatched == "dead_letter"
        if kind in (UNROUTABLE, INVALID, SLOW):
            return reason == ("expression" if kind == UNROUTABLE else "invalid")
        # The same drain has started a run of the target that rejected the message.
        of_drain = {each for each in self.rejections[key] if each[1:] == _poll_of(process)}
        return reason == "rejected" and bool(of_drain & self.taken)

    def is_undecided(self, key: Key, held: Held) -> bool:
        """Whether a delivery of a message ended without a decision, by no fault of the package."""
        late = not held.is_at_work or held.is_late or held.is_short
        return late or held.process.stopped or key[1] in held.undecided


def _poll_of(process: Process) -> tuple[int, int]:
    return id(process), process.seen.polls
