"""
The observer of starts of runs, of targets and of the dead-letter DAG, with the rules for them.

2. A message never has a second run, in any DAG. It has both a run and a dead letter in one case only: its
   process was frozen for longer than its lease when it sent the dead letter. Messages of an inbox with the
   same business key share one run. The id of a run follows from the id of the inbox and that of the message
   or the key, and its conf has the message that started it.
3. No run is started in the last 30 s of its lease or later, unless its process was frozen.
6. The message of a lease with the highest delivery count is started first. After a failed acknowledgement,
   messages without a run are started before those whose run is older than the lease.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.dispatch.payload_store import digest_of
from tests.simulation.airflow import DEAD_LETTER, WORKING
from tests.simulation.keys import runs_of
from tests.simulation.knowledge import MARGIN_SECONDS, Key, Knowledge, Lease, key_of, run_id_of, run_id_of_key
from tests.simulation.plan import INVALID, NORMAL, POISON, SLOW, UNMATCHED, UNROUTABLE

if TYPE_CHECKING:
    from tests.simulation.airflow import Run
    from tests.simulation.ledger import Ledger
    from tests.simulation.plan import PlannedMessage
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World

LAST_SAFE_DELIVERY = 4
BEFORE_A_DECISION = ("look for", "stored run", "count", "get")


class Starts:
    """
    Observes the starts of a history.

    :param rejections: of each message: which DAG rejected it, and in which poll of which process.
    :param polls_with_start: which DAG started runs in which poll of which process.
    :param polls_with_request: of each message: in which poll of which process its run was requested.
    :param excepted: messages that may have a run and a dead letter, as ``docs/promise.md`` says.
    """

    def __init__(self, world: World, ledger: Ledger) -> None:
        self.world = world
        self.ledger = ledger
        self.must = ledger.must
        self.rejections: dict[Key, set[tuple[str, int, int]]] = defaultdict(set)
        self.polls_with_start: set[tuple[str, int, int]] = set()
        self.polls_with_request: dict[Key, set[tuple[int, int]]] = defaultdict(set)
        self.excepted: set[Key] = set()

    # Requests

    def start_issued(self, process: Process, dag_id: str, conf: dict[str, Any]) -> None:
        """A process requests the run of a message."""
        message_id, now = key_of(conf)[1], self.world.scheduler.now
        lease = self.ledger.lease_of(process, message_id)
        if lease is None:
            self.must(False, process, 3, f"starts a run of {message_id}, which it has not leased")
            return
        process.knowledge.went_on()
        if not lease.has_twice and not process.knowledge.has_failed_ack:
            self._must_be_in_order(process, lease, message_id)
        if not lease.has_twice and process.knowledge.failed_acks:
            self._must_start_those_without_a_run(process, lease, message_id)
        seconds_left = lease.known_until - now
        if now - process.frozen_until > MARGIN_SECONDS and not lease.is_doubtful:
            text = f"starts {message_id} {seconds_left:.0f} s before its lease ends"
            self.must(seconds_left >= MARGIN_SECONDS, process, 3, text)
        lease.attempted.add(message_id)
        lease.started.add(message_id)
        process.knowledge.starting, process.knowledge.starting_since = (lease, message_id, dag_id), now
        self.polls_with_request[lease.inbox_id, message_id].add(_poll_of(process))

    def dead_letter_issued(self, process: Process, conf: dict[str, Any]) -> None:
        """A process requests the run of a dead letter."""
        message_id, now = key_of(conf)[1], self.world.scheduler.now
        lease = self.ledger.lease_of(process, message_id)
        if lease is None:
            self.must(False, process, 3, f"starts a dead letter of {message_id}, which it has not leased")
            return
        process.knowledge.dead_letter = lease, message_id, now
        seconds_left = lease.known_until - now
        text = f"starts a dead letter of {message_id} {seconds_left:.0f} s before its lease ends"
        self.must(seconds_left >= MARGIN_SECONDS, process, 3, text)

    def _must_be_in_order(self, process: Process, lease: Lease, message_id: str) -> None:
        counts = [
            count
            for other_id, count in lease.counts.items()
            if other_id not in lease.attempted
            and other_id not in lease.released
            and self.world.messages[lease.inbox_id, other_id].kind in (NORMAL, POISON)
        ]
        count = lease.counts[message_id]
        in_order = count >= max(counts, default=count)
        self.must(in_order, process, 6, f"starts {message_id} on delivery {count} before a higher one")

    def _must_start_those_without_a_run(self, process: Process, lease: Lease, message_id: str) -> None:
        ids_without_run = [
            other_id
            for other_id in lease.counts
            if other_id not in lease.started
            and other_id not in lease.released
            and not self.ledger.runs.get(self.world.identity((lease.inbox_id, other_id)))
            and self.world.messages[lease.inbox_id, other_id].kind == NORMAL
        ]
        leased_at = lease.until - lease.seconds
        identity = self.world.identity((lease.inbox_id, message_id))
        has_run = self.ledger.run_times.get(identity, leased_at) < leased_at
        text = f"starts {message_id}, which has its run, before {ids_without_run}"
        self.must(not (has_run and ids_without_run), process, 6, text)

    def search_issued(self, process: Process, run_ids: list[str]) -> None:
        """A process asks whether a message, or its business key, has a run."""
        for lease in process.knowledge.leases if run_ids[0].startswith("workflow__key__") else ():
            for other_id in lease.counts:
                key = self.world.messages[lease.inbox_id, other_id].payload.get("key")
                if run_id_of_key(key, lease.inbox_id) == run_ids[0]:
                    lease.attempted.add(other_id)
        message_id = run_ids[0].removeprefix("workflow__dead__").removeprefix("workflow__").split("__")[0]
        if (lease := self.ledger.lease_of(process, message_id)) is not None:
            lease.attempted.add(message_id)

    # Answers

    def start_answered(self, process: Process, dag_id: str, existing: bool) -> None:
        """A process knows that a run exists."""
        (process.knowledge.targets_found if existing else process.knowledge.targets_started).add(dag_id)

    def search_answered(self, process: Process, dag_id: str, is_found: bool) -> None:
        """A process knows whether a target has a run of a message."""
        knowledge: Knowledge = process.knowledge
        faulty, knowledge.faulty = knowledge.faulty, None
        if is_found:
            knowledge.targets_found.add(dag_id)
        if faulty is not None and not is_found:
            self._rejected(process, faulty)

    def _rejected(self, process: Process, start: tuple[Lease, str, str]) -> None:
        """A process knows that a target rejected a message."""
        lease, message_id, dag_id = start
        lease.refused.add(message_id)
        process.knowledge.targets_found.discard(dag_id)
        process.knowledge.rejected_by.append((dag_id, lease.counts[message_id] == 1))
        self.rejections[lease.inbox_id, message_id].add((dag_id, *_poll_of(process)))

    def airflow_failed(self, process: Process, operation: str, error: Any) -> None:
        """
        A process got an error from Airflow.

        :param error: None if the API server was away.
        """
        knowledge: Knowledge = process.knowledge
        detail = {} if error is None else error.error.detail
        process.harm(f"Airflow: {operation}")
        knowledge.troubled = True
        if operation == DEAD_LETTER and knowledge.dead_letter is not None:
            lease, message_id, _ = knowledge.dead_letter
            lease.undecided.add(message_id)
        elif operation in BEFORE_A_DECISION and (
            not detail or detail.get("status_code") == 503 or self._is_dead_letter_dag_broken
        ):
            for lease in knowledge.leases:
                lease.undecided.update(lease.counts)
        if operation in ("look for", "stored run"):
            knowledge.faulty = None
        if operation != "start" or knowledge.starting is None:
            return
        inner = detail.get("detail", {}).get("detail")
        if detail.get("exception_type") == "HTTPStatusError" or detail.get("status_code") == 503:
            # An error of the server: the run may be stored.
            knowledge.faulty = knowledge.starting
        elif isinstance(inner, dict) and inner.get("reason") == "value_error":
            self._rejected(process, knowledge.starting)
        else:
            lease, message_id, _ = knowledge.starting
            lease.refused.add(message_id)
            knowledge.failed = True

    @property
    def _is_dead_letter_dag_broken(self) -> bool:
        return self.world.airflow.states.get(str(self.world.plan.dead_letter_dag_id), WORKING) != WORKING

    # Effects

    def takes_effect(self, process: Process, conf: dict[str, Any]) -> None:
        lease, now = self.ledger.lease_of(process, key_of(conf)[1]), self.world.scheduler.now
        if lease is None or lease.is_doubtful:
            return
        if now >= lease.until and now - process.frozen_until > MARGIN_SECONDS:
            text = f"starts a run of {key_of(conf)[1]} {now - lease.until:.1f} s after its lease expired"
            self.must(False, process, 3, text)

    def run_exists(self, process: Process, run: Run, conf: dict[str, Any]) -> None:
        """A run was found under the id of a message."""
        same = self.world.identity(key_of(run.conf)) == self.world.identity(key_of(conf))
        text = f"{key_of(conf)[1]} finds the run of another message or inbox: {run.run_id}"
        self.must(same, process, 2, text)

    def run_created(self, process: Process, run: Run) -> None:
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
        self.polls_with_start.add((run.dag_id, *_poll_of(process)))
        expected = run_id_of(message_id, inbox_id)
        if identity != key and message is not None:
            expected = run_id_of_key(message.payload["key"], inbox_id)
        self.must(run.run_id == expected, process, 2, f"run id {run.run_id}")
        if message is not None:
            is_sound = message.kind == NORMAL
            self.must(is_sound, process, 2, f"a run of {message_id}, which is {message.kind}")
            same = self._has_payload(run.conf["message"], message)
            self.must(same, process, 2, f"the run of {message_id} has another payload")

    def _may_have_both(self, process: Process, run: Run, earlier: list[Run]) -> bool:
        """
        Whether a message with a run may become a dead letter, or a dead letter get a run.

        Only if the process was frozen when it requested the second one, for longer than its lease; or if the
        service delivered the message to another process while the lease of this one lasted.
        """
        knowledge, dead_letters = process.knowledge, self.world.plan.dead_letter_dag_id
        is_dead_letter = run.dag_id == dead_letters
        if len(earlier) > 1 or (earlier[0].dag_id == dead_letters) is is_dead_letter:
            return False
        if is_dead_letter and knowledge.dead_letter:
            lease, _, issued_at = knowledge.dead_letter
        elif not is_dead_letter and knowledge.starting:
            lease, issued_at = knowledge.starting[0], knowledge.starting_since
        else:
            return False
        is_late = process.frozen_until >= issued_at and self.world.scheduler.now >= lease.until
        if not (is_late or self._is_delivered_meanwhile(key_of(run.conf), lease)):
            return False
        self.excepted.add(key_of(run.conf))
        return True

    def _is_delivered_meanwhile(self, key: Key, lease: Lease) -> bool:
        """Whether the service delivered a message again while a lease lasted, before or after its own."""
        held = [other for other in self.ledger.deliveries[key] if key[1] not in other.released]
        begins_at = {other: other.until - other.seconds for other in held}
        return lease in held and any(
            other is not lease and begins_at[other] < lease.until and begins_at[lease] < other.until
            for other in held
        )

    # Dead letters

    def _must_be_decided(self, process: Process, key: Key, conf: dict[str, Any]) -> None:
        """Rule 13, for a dead letter that was stored."""
        message, reason, count = self.world.messages[key], conf["reason"], conf["delivery_count"]
        is_its = any((key[1], count) in lease.deliveries for lease in process.knowledge.leases)
        same = self._has_payload(json.loads(conf["message_json"]), message)
        self.must(same, process, 13, f"the dead letter of {key[1]} has another payload")
        self.must(is_its, process, 13, f"the dead letter of {key[1]} has another delivery count")
        if reason == "target":
            was_asked = _poll_of(process) in self.polls_with_request[key]
            self.must(
                was_asked, process, 13, f"{key[1]} is a dead letter that its target was not asked about"
            )
            holds = count >= LAST_SAFE_DELIVERY and message.kind in (NORMAL, POISON)
        elif reason == "undecided":
            # A copy of an earlier delivery may come later.
            earlier = [lease for lease in self.ledger.deliveries[key][:-1] if key[1] in lease.counts]
            before = max(earlier, key=lambda lease: lease.counts[key[1]], default=None)
            undecided = before is None or self.is_undecided(key, before)
            is_excused = message.kind != NORMAL or not self.world.plan.spares_sound
            holds = count > LAST_SAFE_DELIVERY and undecided and is_excused
        else:
            at_fault = self._is_at_fault(process, key, message.kind, reason)
            is_due = count >= self.world.plan.dead_letter_after or self.world.plan.omits_counts
            holds = is_due and at_fault
        text = f"{message.kind} {key[1]} is a dead letter on delivery {count}: {reason}"
        self.must(holds, process, 13, text)

    def _has_payload(self, stored: dict[str, Any], message: PlannedMessage) -> bool:
        """Whether a message in a conf has its payload, or the reference of it if payloads are in a store."""
        if not self.world.plan.has_store:
            return bool(stored["payload"] == message.payload)
        return stored["payload"] is None and stored["payload_sha256"] == digest_of(message.payload)

    def _is_at_fault(self, process: Process, key: Key, kind: str, reason: str) -> bool:
        if kind == UNMATCHED:
            return reason == "unmatched" and self.world.plan.unmatched == "dead_letter"
        if kind in (UNROUTABLE, INVALID, SLOW):
            return reason == ("expression" if kind == UNROUTABLE else "invalid")
        # The same drain has started a run of the target that rejected the message.
        of_drain = {rejection for rejection in self.rejections[key] if rejection[1:] == _poll_of(process)}
        return reason == "rejected" and bool(of_drain & self.polls_with_start)

    def is_undecided(self, key: Key, lease: Lease) -> bool:
        """Whether a delivery of a message ended without a decision, by no fault of the package."""
        late = not lease.is_at_work or lease.is_late or lease.is_short
        return late or lease.process.stopped or key[1] in lease.undecided


def _poll_of(process: Process) -> tuple[int, int]:
    return id(process), process.knowledge.polls
