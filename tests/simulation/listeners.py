"""The listener DAGs: their runs, and the retries and deferrals of their task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
)

from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.rejections import TargetError
from tests.simulation.airflow import DagRunOfListener, OldTaskInstance, StateStore, TaskInstance
from tests.simulation.held import Seen
from tests.simulation.ledger import PILOT_SECONDS
from tests.simulation.plan import FROM_TRIGGER
from tests.simulation.scheduler import Killed, Process
from tests.simulation.tasks import Deferred, Event, Try, leased_by_trigger

if TYPE_CHECKING:
    from tests.simulation.world import World

HEARTBEAT_SECONDS = 300.0
"""Time after which Airflow takes a task without heartbeats for dead."""
TRIGGERER_SECONDS = 30.0
LONGEST_GAP_SECONDS = 3600.0
EXPECTED = (WorkflowError, AirflowException, Deferred)
"""What a task may raise; anything else is an error of the package, or of the simulation."""


@dataclass
class Listener:
    """
    A DAG with one task, that is run again and again.

    :param kind: of its task.
    :param current: the process of the task, while there is one.
    :param broken_before: whether an earlier process of this DAG run told the next that the target is broken.
    :param told: processes of this DAG run that began when that was so.
    """

    world: World
    name: str
    kind: str
    inbox: str
    run: DagRunOfListener = field(default_factory=lambda: DagRunOfListener(0, None, "success"))
    previous: DagRunOfListener | None = None
    failed_runs: int = 0
    try_number: int = 0
    gap: float = 0.0
    store: StateStore | None = None
    current: Process | None = None
    broken_before: bool = False
    told: list[Process] = field(default_factory=list)
    deferral: Deferred | None = None

    def begin_run(self) -> None:
        """Start the next DAG run."""
        plan = self.world.plan
        self.previous = self.run if self.run.number else None
        number = self.run.number + 1
        self.run = DagRunOfListener(number, f"date {number}" if plan.is_scheduled else None)
        self.store = StateStore(self.world, self._told_that_it_works) if plan.has_store else None
        self.try_number, self.broken_before = 0, False
        self.told.clear()
        self.begin_try()

    def _told_that_it_works(self) -> None:
        self.broken_before = False
        for each in self.told:
            # One that was frozen for long reads the store only after a later try changed it.
            if each is not self.world.process:
                each.seen.careful = False

    def begin_try(self) -> None:
        self.try_number += 1
        self.deferral = None
        if self.kind == FROM_TRIGGER and self.world.plan.max_unfinished_runs is None:
            self._defer(Deferred(1, PILOT_SECONDS, {}))
        else:
            self._execute(None)

    # Processes

    def _execute(self, event: Event | None) -> None:
        """Start a process of the task."""
        world = self.world
        process = self._new_process(f"{self.name}.{self.run.number}.{self.try_number}", self._ended)
        self.current = process
        if event is not None and event.text:
            world.ledger.handed_off(process, event.lease_id, event.ends_at)
        so_far = self.deferral.so_far if self.deferral else None
        task = Try(world, process, self.kind, self.inbox, self._context(), event, so_far or None)
        world.scheduler.start(process, task.work)

    def _new_process(self, name: str, on_end: Callable[[Process, Any], None]) -> Process:
        world, plan = self.world, self.world.plan
        first = self.try_number == 1 and not self.broken_before
        failed_before = self.previous is not None and self.previous.state == "failed"
        careful = self.broken_before if plan.has_store else self.try_number > 1
        seen = Seen(
            plan.dag_ids,
            careful=careful or (first and plan.is_scheduled and failed_before and plan.release >= (3, 2)),
            unknown=first and not plan.is_scheduled and self.failed_runs > 0,
        )
        process = Process(name, world.draw_doom(), seen=seen)
        if plan.has_store and self.broken_before:
            self.told.append(process)
        process.on_end = lambda outcome: on_end(process, outcome)
        process.on_frozen = lambda seconds: self._frozen(process, seconds)
        return process

    def _context(self) -> dict[str, Any]:
        name = f"{self.name}.{self.run.number}"
        given = (self.world, self.name, self.try_number, self.failed_runs, name)
        old = self.world.plan.release < (3, 2)
        ti = OldTaskInstance(*given) if old else TaskInstance(*given, previous=self.previous)
        store = {"task_state_store": self.store} if self.store is not None else {}
        return {"ti": ti, "dag_run": self.run, **store}

    def _frozen(self, process: Process, seconds: float) -> None:
        """Airflow takes a frozen process for dead, and goes on without it."""
        if seconds > HEARTBEAT_SECONDS and process is self.current:
            self.world.scheduler.after(HEARTBEAT_SECONDS, lambda: self._give_up(process))

    def _give_up(self, process: Process) -> None:
        if process is self.current:
            self._failed(Killed(), 0.0)

    # How a process ends

    def _ended(self, process: Process, outcome: Any) -> None:
        world = self.world
        world.note(process, "ends", outcome)
        if not isinstance(outcome, Killed):
            world.ledger.process_ended(process, outcome)
            unexpected = isinstance(outcome, Exception) and not isinstance(outcome, EXPECTED)
            world.ledger.must(not unexpected, process, 14, f"ends with {type(outcome).__name__}: {outcome}")
        if process is not self.current:
            return
        if process.seen.failed and isinstance(outcome, TargetError) and not process.seen.forgets:
            self.broken_before = True
        elif process.seen.started.issuperset(process.seen.dag_ids):
            self.broken_before = False
        if isinstance(outcome, Killed):
            self._failed(outcome, world.random.uniform(5.0, HEARTBEAT_SECONDS))
        elif isinstance(outcome, Deferred):
            self._defer(outcome)
        elif isinstance(outcome, BaseException):
            self._failed(outcome, 0.0)
        else:
            self._next_run("success", 0.0 if _handled(outcome) else self.gap)

    def _failed(self, error: BaseException, seconds: float) -> None:
        """Retry the task, or let the DAG run fail."""
        plan, final = self.world.plan, isinstance(error, (AirflowFailException, AirflowSensorTimeout))
        self.current = None
        if final or self.try_number > plan.retries:
            self.failed_runs += 1
            self._next_run("failed", seconds + self.gap)
        else:
            pause = min(plan.retry_seconds * 2 ** (self.try_number - 1), LONGEST_GAP_SECONDS)
            self.world.scheduler.after(seconds + pause, self.begin_try)

    def _next_run(self, state: str, seconds: float) -> None:
        plan = self.world.plan
        self.current = None
        self.run.state = state
        self.gap = min(LONGEST_GAP_SECONDS, max(plan.poll_seconds, self.gap * 2 if seconds else 0.0))
        self.world.scheduler.after(
            seconds + self.world.random.uniform(1.0, plan.poll_seconds), self.begin_run
        )

    # Deferral

    def _defer(self, deferral: Deferred) -> None:
        self.deferral, self.current = deferral, None
        world = self.world
        limit = deferral.limit
        old = bool(limit) and world.random.random() < world.plan.old_triggers
        self._start_trigger(max(limit, world.plan.lease_limit) if old else limit, old)
        if not world.is_quiet and world.random.random() < 0.1:
            # A second triggerer that takes the first one for dead.
            self._start_trigger(limit, False)

    def _start_trigger(self, limit: int, old: bool) -> None:
        deferral = self.deferral
        if deferral is None:
            return

        def ended(process: Process, outcome: Any) -> None:
            self._trigger_ended(process, outcome, deferral, limit, old)

        trigger = self._new_process(f"{self.name} trigger", ended)
        trigger.seen.old, trigger.seen.is_trigger = old, True
        trigger.on_frozen = lambda seconds: None
        if trigger.doom is not None and trigger.doom.kind not in ("kill", "freeze"):
            trigger.doom = None
        seconds = deferral.seconds
        work = lambda: leased_by_trigger(self.world, self.inbox, limit, seconds)  # noqa: E731
        self.world.scheduler.start(trigger, work)

    def _trigger_ended(
        self, process: Process, outcome: Any, deferral: Deferred, limit: int, old: bool
    ) -> None:
        world = self.world
        unexpected = isinstance(outcome, Exception) and not isinstance(outcome, EXPECTED)
        world.ledger.must(not unexpected, process, 14, f"ends with {type(outcome).__name__}: {outcome}")
        world.note(process, "ends", "an event" if isinstance(outcome, Event) else outcome)
        if deferral is not self.deferral:
            return  # Airflow drops the event of a trigger that no task waits for.
        if isinstance(outcome, Killed):
            world.scheduler.after(TRIGGERER_SECONDS, lambda: self._trigger_again(deferral, limit, old))
        elif isinstance(outcome, Event):
            self.deferral = Deferred(deferral.limit, deferral.seconds, deferral.so_far)
            world.scheduler.after(world.hand_off_seconds(), lambda: self._execute(outcome))
        else:
            self.deferral = None
            self._failed(outcome, 0.0)

    def _trigger_again(self, deferral: Deferred, limit: int, old: bool) -> None:
        if deferral is self.deferral:
            self._start_trigger(limit, old)


def _handled(outcome: Any) -> bool:
    return any(outcome[name]["count"] for name in ("started", "existing"))
