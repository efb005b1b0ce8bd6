"""
Histories of ``@task.workflow_inbox`` whose function ends its process for chosen messages.

Rules:

B1. A message is acknowledged only after a call of the function has returned for it, or as a dead letter.
B2. No sound message is quarantined, or becomes a dead letter, because of another one. The promise is for one
    task at a time (docs/promise.md, Limits). With two tasks the rule fails in one history of some thousands.
B3. Each sound message is called at least once, and acknowledged in the end.
B4. A message that ends its process is a dead letter where there is a dead-letter DAG; without one the service
    quarantines it. No other state is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import UUID

from airflow_provider_workflow import clock, observers, pytest_plugin
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.dispatch.batches import Batches
from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
from airflow_provider_workflow.dispatch.runs import Start
from airflow_provider_workflow.emulator.rules import inboxes, queues
from airflow_provider_workflow.limits import Limits
from tests.simulation.scheduler import START, Killed, Process
from tests.simulation.service import Hook
from tests.simulation.world import Scene

INBOX = "measurements"
SOUND, KILLS, RAISES, NAMED = "sound", "kills", "raises", "named"
MAX_HISTORY_SECONDS = 72 * 3600.0
DEAD_LETTERS = "dead"


@dataclass
class BatchPlan:
    """
    All choices of a history.

    :param kinds: kind of each message, by its id.
    :param at: seconds after the beginning at which each message is put.
    :param tasks: how many tasks work on the inbox in parallel.
    :param memory: messages that a process can hold; a larger lease kills it. None for any number.
    :param memory_of_function: messages that the function can hold; a call with more kills its process.
    """

    kinds: dict[str, str]
    at: dict[str, float]
    tasks: int
    batch_size: int
    lease_seconds: int
    dead_letter_after: int | None
    retries: int
    retry_seconds: float
    poll_seconds: float
    call_seconds: float
    seconds_a_message: float
    memory: int | None = None
    memory_of_function: int | None = None
    omits_counts: bool = False


def choose(seed: int) -> BatchPlan:
    """The plan of a seed."""
    random = Random(f"batches {seed}")
    tasks, count = random.choice((1, 1, 1, 2)), random.choice((5, 20, 60, 150))
    share = random.choice((0.0, 0.01, 0.03, 0.1, 0.3) if tasks == 1 else (0.0, 0.01, 0.03))
    other_share = random.choice((0.0, 0.0, 0.02))
    spread = random.choice((0.0, 600.0, 3600.0))
    kinds, at = {}, {}
    for number in range(count):
        message_id = f"m{number:03}"
        draw = random.random()
        kinds[message_id] = (
            KILLS if draw < share else random.choice((RAISES, NAMED)) if draw < share + other_share else SOUND
        )
        at[message_id] = spread * random.random()
    return BatchPlan(
        kinds,
        at,
        tasks=tasks,
        batch_size=random.choice((1, 5, 20, 100)),
        lease_seconds=random.choice((60, 300, 900)),
        dead_letter_after=random.choice((None, 1, 3, 4)),
        retries=random.choice((0, 2, 5)),
        retry_seconds=random.choice((2.0, 10.0, 60.0)),
        poll_seconds=random.choice((20.0, 120.0, 600.0)),
        call_seconds=random.choice((0.05, 0.3, 2.0)),
        seconds_a_message=random.choice((0.0, 0.05, 0.3)),
        memory_of_function=random.choice((None, None, 3, 10, 40)),
    )


class BatchWorld(Scene):
    """Everything in a history."""

    def __init__(self, plan: BatchPlan, seed: int, lines: list[str] | None = None) -> None:
        super().__init__(seed, 5, lines)
        self.plan = plan
        self.inbox_ids[INBOX] = self.inbox_id = self.store.inboxes.open(INBOX).id
        self.ledger = Acknowledgements(self)
        self.returned: set[str] = set()
        self.dead_letters: set[str] = set()
        self.violation = ""

    def play(self) -> str:
        """Play the history, and return the rule that does not hold, or an empty string."""
        for message_id, seconds in self.plan.at.items():
            put_message = partial(
                self.store.messages.put, self.inbox_id, [{"n": message_id}], ids=[message_id]
            )
            self.scheduler.at(START + seconds, put_message)
        for number in range(self.plan.tasks):
            task = BatchTask(self, number)
            self.scheduler.after(self.random.uniform(0.0, 60.0), task.begin_run)
        try:
            self.scheduler.play(START + MAX_HISTORY_SECONDS, self._is_over)
            return self.violation or self._check()
        finally:
            self.scheduler.end()

    def states(self) -> dict[str, str]:
        """The state of each message that is not acknowledged."""
        return {
            message.id: message.status for message in self.store.messages.queue(self.inbox_id).live.values()
        }

    def latency(self) -> float:
        """Seconds that a request takes to arrive, or its answer to come back."""
        return self.random.uniform(0.5, 1.5) * self.plan.call_seconds

    def draw_service_fault(self) -> None:
        """None: the service is well."""

    def must(self, holds: bool, rule: str) -> None:
        if not holds:
            self.violation = self.violation or rule

    def _is_over(self) -> bool:
        if self.violation:
            return True
        if self.scheduler.now < START + max(self.plan.at.values()) + 1.0:
            return False
        return all(status == "quarantined" for status in self.states().values())

    def _check(self) -> str:
        states, kinds = self.states(), self.plan.kinds
        for message_id, kind in kinds.items():
            state = states.get(message_id, "acknowledged")
            is_dead = message_id in self.dead_letters
            text = f"{kind} {message_id} is {state}{' and a dead letter' if is_dead else ''}"
            if kind == SOUND:
                if state == "quarantined" or is_dead:
                    return f"rule B2: {text}"
                if state != "acknowledged" or message_id not in self.returned:
                    return f"rule B3: {text}"
            elif self.plan.dead_letter_after:
                if state != "acknowledged" or not is_dead:
                    return f"rule B4: {text}"
            elif state != "quarantined":
                return f"rule B4: {text}"
        return ""


@dataclass
class BatchTask:
    """A DAG with one task, that is run again and again."""

    world: BatchWorld
    number: int
    run: int = 0
    attempt: int = 0

    def begin_run(self) -> None:
        self.run, self.attempt = self.run + 1, 0
        self._begin_try()

    def _begin_try(self) -> None:
        self.attempt += 1
        process = Process(f"task {self.number}.{self.run}.{self.attempt}")
        process.on_end = self._ended
        self.world.scheduler.start(process, lambda: self._work(process))

    def _work(self, process: Process) -> Any:
        plan, world = self.world.plan, self.world
        rules = DeadLetterRules(DEAD_LETTERS, plan.dead_letter_after) if plan.dead_letter_after else None
        return Batches(
            BatchHook(world),  # type: ignore[arg-type]
            INBOX,
            partial(self._call, process),
            DeadLetterRuns(world),
            Limits(plan.batch_size, plan.lease_seconds),
            attempt=self.attempt,
            dead_letter_rules=rules,
        ).run()

    def _call(self, process: Process, messages: list[dict[str, Any]]) -> dict[str, str]:
        """The user's function: it ends its process, raises, or names failed messages."""
        world, plan = self.world, self.world.plan
        ids = [message["id"] for message in messages]
        world.note(process, "calls", ids)
        if plan.memory_of_function is not None and len(ids) > plan.memory_of_function:
            world.note(process, "is killed by", f"a call with {len(ids)} messages")
            world.scheduler.kill(process)
            raise Killed
        for message_id in ids:
            world.scheduler.pause(plan.seconds_a_message)
            if plan.kinds[message_id] == KILLS:
                world.note(process, "is killed by", message_id)
                world.scheduler.kill(process)
                raise Killed
            if plan.kinds[message_id] == RAISES:
                raise ValueError(message_id)
        named_ids = [message_id for message_id in ids if plan.kinds[message_id] == NAMED]
        world.returned.update(set(ids) - set(named_ids))
        return dict.fromkeys(named_ids, "named")

    def _ended(self, outcome: Any) -> None:
        world, plan = self.world, self.world.plan
        world.note(None, f"task {self.number}.{self.run}.{self.attempt} ends", outcome)
        random = world.random
        if not isinstance(outcome, BaseException):
            world.scheduler.after(random.uniform(1.0, plan.poll_seconds), self.begin_run)
            return
        seconds = random.uniform(2.0, 60.0) if isinstance(outcome, Killed) else 0.0
        if self.attempt > plan.retries:
            world.scheduler.after(seconds + random.uniform(1.0, plan.poll_seconds), self.begin_run)
        else:
            pause = plan.retry_seconds * 2 ** (self.attempt - 1)
            world.scheduler.after(seconds + pause, self._begin_try)


@dataclass
class DeadLetterRuns:
    """The dead-letter DAG."""

    world: BatchWorld
    alongside = False

    def check_target(self, dag_id: str, argument: str = "") -> None:
        self._pause()

    def start(self, dag_id: str, run_id: str, conf: dict[str, Any], note: str | None = None) -> Start:
        self._pause()
        existing = conf["message_id"] in self.world.dead_letters
        self.world.dead_letters.add(conf["message_id"])
        self.world.note(None, f"dead letter {conf['message_id']}", conf["cause"])
        return Start.EXISTING if existing else Start.STARTED

    def find(self, dag_id: str, run_id: str, *_: Any) -> Start | None:
        self._pause()
        is_dead = any(f"__{message_id}__" in run_id for message_id in self.world.dead_letters)
        return Start.EXISTING if is_dead else None

    def unfinished(self, dag_id: str) -> int:
        return 0

    def _pause(self) -> None:
        self.world.scheduler.pause(self.world.random.uniform(0.02, 0.3))


@dataclass
class Acknowledgements:
    """The observer of acknowledgements, for rule B1."""

    world: BatchWorld

    def acknowledged(self, process: Process, inbox: str, lease_id: str, ids: Sequence[str]) -> None:
        for message_id in ids:
            is_done = message_id in self.world.returned or message_id in self.world.dead_letters
            self.world.must(is_done, f"rule B1: {message_id} is acknowledged, and no call has returned")

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class BatchHook(Hook):
    """The hook, with the listing of messages that only batches need."""

    world: Any

    def list_messages(self, inbox: str) -> list[dict[str, Any]]:
        self.world.pause(self.world.latency())
        return [{"id": message_id, "status": status} for message_id, status in self.world.states().items()]


def play(seed: int, lines: list[str] | None = None) -> str:
    """
    Play the history of a seed.

    :param lines: receives the history.
    :return: the rule that does not hold; empty if all hold.
    """
    return play_plan(choose(seed), seed, lines)


def play_plan(plan: BatchPlan, seed: int, lines: list[str] | None = None) -> str:
    """
    Play the history of a plan.

    :param seed: seed of the random draws while it is played.
    :return: as :func:`play`.
    """
    random = Random(seed + 2)
    made_up = SimpleNamespace(uuid4=lambda: UUID(int=random.getrandbits(128)), UUID=UUID)
    pytest_plugin.reset()
    with (
        patch.object(queues, "uuid", made_up),
        patch.object(inboxes, "uuid", made_up),
        patch.object(observers, "notify", lambda *_, **__: None),
        patch.object(quarantine, "quarantine_check_seconds", lambda: 0.0),
    ):
        world = BatchWorld(plan, seed, lines)
        with clock.use(world.clock):
            return world.play()
