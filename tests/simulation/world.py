"""One history: everything in it, and all random draws while it is played."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from random import Random
from typing import Any

from greenlet import getcurrent

from airflow_provider_workflow.emulator.clock import Clock as RulesClock
from airflow_provider_workflow.emulator.rules.store import Store
from airflow_provider_workflow.emulator.settings import Settings
from tests.simulation.airflow import WORKING, Airflow
from tests.simulation.bucket import Bucket
from tests.simulation.keys import business_key
from tests.simulation.knowledge import Key, key_of
from tests.simulation.ledger import Ledger
from tests.simulation.listeners import Listener
from tests.simulation.plan import KILLER, NORMAL, POISON, Episode, Plan, PlannedMessage, message_of
from tests.simulation.scheduler import START, Doom, Killed, Process, Scheduler
from tests.simulation.service import FAULTS

INBOXES = ("orders", "returns")
QUIET_SECONDS = 60 * 3600.0
"""The time in which everything must be done once nothing is disturbed any more."""
MAX_DELIVERIES = 5
MAX_TRAFFIC = 20
LOOK_SECONDS = 600.0
DOOMS = ("kill", "kill", "term", "timeout", "freeze")


class SimulatedClock(RulesClock):
    """The clock of the package, and that of the service."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self.scheduler = scheduler

    def now(self) -> float:
        return self.scheduler.now

    def monotonic(self) -> float:
        return self.scheduler.now

    def cpu_seconds(self) -> float:
        return float(getattr(getcurrent(), "cpu_seconds", 0.0))

    def sleep(self, seconds: float) -> None:
        self.scheduler.pause(seconds)


class Scene:
    """
    Time, processes and the service of a history.

    :param lines: the history, one line for each call; None if it is not shown.
    """

    def __init__(self, seed: int, quarantine_after: int, lines: list[str] | None) -> None:
        self.lines = lines
        self.random = Random(seed + 1)
        self.scheduler = Scheduler(self.random)
        self.clock = SimulatedClock(self.scheduler)
        self.pause = self.scheduler.pause
        self.store = Store(self.clock, Settings(quarantine_after=quarantine_after))
        self.inbox_ids: dict[str, str] = {}
        self.away: set[str] = set()

    @property
    def process(self) -> Process:
        """The running process."""
        process: Any = getcurrent()
        assert isinstance(process, Process)
        return process

    def kill(self, process: Process, cause: str) -> None:
        """
        End the running process at once.

        :raises Killed: always.
        """
        self.note(process, "is killed by", cause)
        self.scheduler.kill(process, f"killed by {cause}")
        raise Killed

    def note(self, process: Process | None, call: str, result: object) -> None:
        """Add a line to the history."""
        if self.lines is not None:
            name = process.name if process is not None else "-"
            moment = self.scheduler.now - START
            self.lines.append(f"{moment:10.2f} {name:32} {call} -> {_short(result)}")


class World(Scene):
    """Everything in a history."""

    def __init__(self, plan: Plan, lines: list[str] | None = None) -> None:
        super().__init__(plan.seed, plan.quarantine_after, lines)
        self.plan = plan
        self.ledger = Ledger(self)
        dead_letters = [plan.dead_letter_dag_id] if plan.dead_letter_dag_id else []
        self.airflow = Airflow(self, dict.fromkeys([*plan.dag_ids, *dead_letters], WORKING))
        self.bucket = Bucket(self) if plan.has_store else None
        self.messages: dict[Key, PlannedMessage] = {}
        self.is_quiet = False
        self.quarantined = 0
        self._expected = 0
        self._number = 0
        self.put_at: dict[Key, float] = {}
        self.sensors: dict[tuple[str, bool], Any] = {}
        self.harmed = 0
        self.calm_since = START

    # Playing

    def play(self) -> None:
        """Play the history, until everything is done or a rule does not hold."""
        self._set_up()
        end = self.plan.disturbed_for
        self.scheduler.at(START + end, self._become_quiet)
        self.scheduler.play(START + end + QUIET_SECONDS, self._is_over)

    def end(self) -> None:
        """End all processes, and forget them."""
        self.scheduler.end()

    def forget(self) -> None:
        """Clear everything: that is faster than the garbage collection of its cycles."""
        for process in self.scheduler.processes:
            vars(process).clear()
        for part in (self.ledger, self.airflow, self.store, self.scheduler, self):
            vars(part).clear()

    def _set_up(self) -> None:
        for name, kinds in zip(INBOXES, self.plan.inboxes, strict=False):
            self.inbox_ids[name] = self.store.inboxes.open(name).id
            for number, kind in enumerate(kinds, 1):
                listener = Listener(self, f"{name}-{kind.replace(' ', '-')}-{number}", kind, name)
                self.scheduler.after(self.random.uniform(0.0, 30.0), listener.begin_run)
        for message in self.plan.messages:
            self.scheduler.at(START + message.at, partial(self._put, message))
        for episode in self.plan.episodes:
            if episode.at_run is not None:
                continue
            self.scheduler.at(START + episode.begin, partial(self._begin, episode))
            self.scheduler.at(START + episode.end, partial(self._end, episode))
        for _ in range(self.plan.duplicates):
            seconds = self.random.random() * self.plan.disturbed_for
            self.scheduler.after(seconds, self._deliver_again)

    def _put(self, message: PlannedMessage) -> None:
        for inbox_id in self.inbox_ids.values():
            new_ids = self.store.messages.put(inbox_id, [dict(message.payload)], ids=[message.message_id])
            if new_ids:
                self.messages[inbox_id, message.message_id] = message
                self.put_at[inbox_id, message.message_id] = self.scheduler.now
                self._expected += self.plan.ends(message.kind)
                if message.count:
                    attributes = {"lease_count": message.count}
                    self.store.messages.set_attributes(inbox_id, message.message_id, attributes)
                self.note(None, f"put {message.message_id}", message.kind)

    def _begin(self, episode: Episode) -> None:
        self.note(None, f"{episode.dag_id or 'service'}", episode.fault)
        if episode.fault in ("service", "acknowledge", "store"):
            self.away.add(episode.fault)
        elif episode.fault == "inbox":
            self.store.inboxes.pause(self.inbox_ids[INBOXES[0]])
        else:
            self.airflow.states[episode.dag_id] = episode.fault

    def run_was_created(self, dag_id: str, number: int) -> None:
        """Break a target that worked until now."""
        for episode in self.plan.episodes:
            if episode.at_run == number and episode.dag_id == dag_id and not self.is_quiet:
                self._begin(episode)
                self.scheduler.after(episode.end, partial(self._end, episode))

    def _end(self, episode: Episode) -> None:
        if self.is_quiet:
            return
        self.note(None, f"{episode.dag_id or 'service'}", f"no longer: {episode.fault}")
        if episode.fault in ("service", "acknowledge", "store"):
            self.away.discard(episode.fault)
        elif episode.fault == "inbox":
            if self.store.inboxes.get(self.inbox_ids[INBOXES[0]]).status == "paused":
                self.store.inboxes.resume(self.inbox_ids[INBOXES[0]])
        else:
            self.airflow.states[episode.dag_id] = WORKING

    def _deliver_again(self) -> None:
        if self.plan.changes:
            return
        for inbox_id in self.inbox_ids.values():
            for lease in list(self.store.messages.queue(inbox_id).leases.values()):
                if lease.numbers:
                    self.note(None, f"deliver {lease.id} twice", "")
                    self.store.messages.deliver_again(inbox_id, lease.id)
                    return

    def _become_quiet(self) -> None:
        """From now on nothing is disturbed."""
        for episode in self.plan.episodes:
            self._end(episode)
        self.is_quiet = True
        for (inbox_id, message_id), message in self.messages.items():
            if not self.plan.ends(message.kind) and self.plan.quarantine_after > MAX_DELIVERIES:
                # The service quarantines it soon; else it would be leased again for days.
                self.store.messages.set_attributes(
                    inbox_id, message_id, {"lease_count": self.plan.quarantine_after - MAX_DELIVERIES}
                )
        self._look_for_quarantined()
        self.note(None, "everything", "quiet from now on")
        if self.plan.dead_letter_dag_id is not None:
            self._put_another(1)

    def _put_another(self, number: int) -> None:
        """Put sound messages from time to time: only after a start is a rejected message decided about."""
        if number > MAX_TRAFFIC or self._is_done:
            return
        self._put(message_of("t", number))
        self.scheduler.after(
            self.random.choice((60.0, 600.0, 3600.0)), partial(self._put_another, number + 1)
        )

    def _look_for_quarantined(self) -> None:
        """Count, from time to time, the messages that are quarantined and not delivered any more."""
        states: dict[Key, set[str]] = defaultdict(set)
        for inbox_id in self.inbox_ids.values():
            for message in self.store.messages.queue(inbox_id).live.values():
                states[inbox_id, str(message.id)].add(message.status)
        self.quarantined = sum(
            statuses == {"quarantined"}
            and key not in self.ledger.done
            and self.plan.ends(self.messages[key].kind)
            for key, statuses in states.items()
        )
        self.scheduler.after(LOOK_SECONDS, self._look_for_quarantined)

    def _is_over(self) -> bool:
        ledger = self.ledger
        if ledger.violation:
            return True
        return self.is_quiet and self._is_done and not self.scheduler.is_any_frozen

    @property
    def _is_done(self) -> bool:
        """Whether no message is expected to be acknowledged any more."""
        return len(self.ledger.done) + self.quarantined >= self._expected

    # What is going on

    def is_poison(self, dag_id: str, conf: dict[str, Any]) -> bool:
        """Whether Airflow rejects every run of a message; the dead-letter DAG takes it."""
        return dag_id != self.plan.dead_letter_dag_id and self.messages[key_of(conf)].kind == POISON

    def meet_killer(self, process: Process, conf: dict[str, Any]) -> None:
        """End a process that starts the run of a message that kills it."""
        if self.messages[key_of(conf)].kind == KILLER:
            self.kill(process, "its message")

    def is_odd(self, inbox_id: str, message_id: str) -> bool:
        """Whether a message never starts a run."""
        return self.messages[inbox_id, message_id].kind != NORMAL

    def identity(self, key: Key) -> Key:
        """The key under which a run is counted; messages of an inbox with the same business key share it."""
        message = self.messages.get(key)
        is_alone = message is None or self.plan.once_per is None or message.kind != NORMAL
        if is_alone or (business := business_key(message.payload.get("key"))) is None:
            return key
        return key[0], f"key {business!r}"

    def capacity(self) -> float:
        """How many more runs the targets may have."""
        most = self.plan.max_unfinished_runs
        if most is None:
            return float("inf")
        return min(most - self.airflow.unfinished(dag_id) for dag_id in self.plan.dag_ids)

    def still_leased(self, inbox_id: str, lease_id: str) -> list[str]:
        """Messages that a lease still holds."""
        queue = self.store.messages.queue(inbox_id)
        lease = queue.leases.get(lease_id)
        return [str(queue.live[number].id) for number in lease.numbers] if lease else []

    # What is drawn

    def latency(self) -> float:
        """Seconds that a request takes to arrive, or its answer to come back."""
        draw = self.random.random()
        if draw < 0.7:
            return draw * 0.3 * self.plan.pace
        return (draw if draw < 0.95 else (draw - 0.95) * 100.0) * self.plan.pace

    def draw_service_fault(self) -> str | None:
        if self.is_quiet or self.random.random() >= self.plan.service_faults:
            return None
        fault = self.random.choice(FAULTS)
        return None if fault in ("slow", "waits") and self.plan.changes else fault

    def draw_airflow_fault(self) -> str | None:
        if self.is_quiet or self.random.random() >= self.plan.airflow_faults:
            return None
        return self.random.choice(("before", "after", "error after"))

    def draw_doom(self) -> Doom | None:
        """What happens to a new process."""
        is_spared = self.is_quiet or self.harmed >= self.plan.most_kills
        if is_spared or self.random.random() >= self.plan.harm:
            return None
        self.harmed += 1
        kind = self.random.choice(DOOMS)
        if kind == "freeze" and self.plan.changes:
            kind = "kill"
        seconds = self.random.choice((10.0, 40.0, self.plan.lease_seconds, 4 * self.plan.lease_seconds))
        return Doom(self.random.randint(1, 40), kind, seconds * self.random.uniform(0.5, 1.5))

    def hand_off_seconds(self) -> float:
        """Time from the event of a trigger to the resumed task."""
        is_prompt = self.is_quiet or self.plan.longest_wait is not None
        if is_prompt or self.random.random() < 0.8:
            return self.random.uniform(1.0, 6.0)
        return self.random.uniform(0.0, 2.0) * self.plan.lease_seconds

    def new_id(self) -> str:
        """An id of the service, in the form of a UUID."""
        self._number += 1
        return f"{self.plan.seed & 0xFFFFFFFF:08x}-0000-4000-8000-{self._number:012x}"


def _short(result: object) -> str:
    text = f"{type(result).__name__}: {result}" if isinstance(result, BaseException) else str(result)
    return text[:200].replace("\n", " ")
