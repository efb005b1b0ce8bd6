"""The listener DAGs: their runs, and the retries and deferrals of their task."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
)

from airflow_provider_workflow.client.errors import WorkflowError
from tests.simulation.airflow import TaskInstance
from tests.simulation.knowledge import Knowledge
from tests.simulation.scheduler import Killed, Process
from tests.simulation.tasks import Deferred, Event, Try, leased_by_trigger

if TYPE_CHECKING:
    from tests.simulation.world import World

HEARTBEAT_SECONDS = 300.0
"""Time after which Airflow takes a task without heartbeats for dead."""
TRIGGERER_SECONDS = 30.0
MAX_GAP_SECONDS = 3600.0
EXPECTED = (WorkflowError, AirflowException, Deferred)
"""What a task may raise. Anything else is a mistake in the package or in the simulation."""


@dataclass
class Listener:
    """
    A DAG with one task, that is run again and again.

    :param kind: kind of its task.
    :param current: the process of the task, while there is one.
    :param run_number: number of its DAG run, from 1.
    :param was_killed: whether the try before was ended from outside, and not by an error of its own.
    """

    world: World
    name: str
    kind: str
    inbox: str
    run_number: int = 0
    try_number: int = 0
    gap: float = 0.0
    current: Process | None = None
    was_killed: bool = False
    deferral: Deferred | None = None

    def begin_run(self) -> None:
        """Start the next DAG run."""
        self.run_number += 1
        self.try_number = 0
        self.begin_try()

    def begin_try(self) -> None:
        if self.was_killed:
            self.world.calm_since, self.was_killed = self.world.scheduler.now, False
        self.try_number += 1
        self.deferral = None
        self._execute(None)

    # Processes

    def _execute(self, event: Event | None) -> None:
        """Start a process of the task."""
        world = self.world
        process = self._new_process(f"{self.name}.{self.run_number}.{self.try_number}", self._ended)
        self.current = process
        if event is not None and event.text:
            world.ledger.handed_off(process, event.lease_id, event.ends_at)
        so_far = self.deferral.so_far if self.deferral else None
        run_id = f"{self.name}.{self.run_number}"
        context = {"ti": TaskInstance(world, self.name, self.try_number, run_id)}
        task = Try(world, process, self.kind, self.inbox, context, event, so_far or None)
        world.scheduler.start(process, task.work)

    def _new_process(self, name: str, on_end: Callable[[Process, Any], None]) -> Process:
        world = self.world
        process = Process(
            name, world.draw_doom(), knowledge=Knowledge(world.plan.dag_ids, attempt=self.try_number)
        )
        process.on_end = lambda outcome: on_end(process, outcome)
        process.on_frozen = lambda seconds: self._frozen(process, seconds)
        return process

    def _frozen(self, process: Process, seconds: float) -> None:
        """Airflow takes a process that is frozen for long for dead, and goes on without it."""
        if seconds > HEARTBEAT_SECONDS and process is self.current:
            self.world.scheduler.after(HEARTBEAT_SECONDS, lambda: self._give_up(process))

    def _give_up(self, process: Process) -> None:
        if process is self.current:
            self.was_killed = True
            self._failed(Killed(), 0.0)

    # How a process ends

    def _ended(self, process: Process, outcome: Any) -> None:
        world = self.world
        world.note(process, "ends", outcome)
        if not isinstance(outcome, Killed):
            world.ledger.process_ended(process, outcome)
        self._must_be_expected(process, outcome)
        if process is not self.current:
            return
        self.was_killed = process.stopped
        if isinstance(outcome, Killed):
            self._failed(outcome, world.random.uniform(5.0, world.plan.notice_seconds))
        elif isinstance(outcome, Deferred):
            self._defer(outcome)
        elif isinstance(outcome, BaseException):
            self._failed(outcome, 0.0)
        else:
            is_handled = any(outcome[name]["count"] for name in ("started", "existing"))
            self._next_run(0.0 if is_handled else self.gap)

    def _must_be_expected(self, process: Process, outcome: Any) -> None:
        unexpected = isinstance(outcome, Exception) and not isinstance(outcome, EXPECTED)
        self.world.ledger.must(not unexpected, process, 14, f"ends with {type(outcome).__name__}: {outcome}")

    def _failed(self, error: BaseException, seconds: float) -> None:
        """Retry the task, or let the DAG run fail."""
        plan, final = self.world.plan, isinstance(error, (AirflowFailException, AirflowSensorTimeout))
        self.current = None
        if final or self.try_number > plan.retries:
            self._next_run(seconds + self.gap)
        else:
            pause = min(plan.retry_seconds * 2 ** (self.try_number - 1), plan.longest_retry_seconds)
            self.world.scheduler.after(seconds + pause, self.begin_try)

    def _next_run(self, seconds: float) -> None:
        plan = self.world.plan
        self.current = None
        self.gap = min(MAX_GAP_SECONDS, max(plan.poll_seconds, self.gap * 2 if seconds else 0.0))
        self.world.scheduler.after(
            seconds + self.world.random.uniform(1.0, plan.poll_seconds), self.begin_run
        )

    # Deferral

    def _defer(self, deferral: Deferred) -> None:
        self.deferral, self.current = deferral, None
        world = self.world
        self._start_trigger(deferral)
        if not (world.is_quiet or self._cancels_triggers) and world.random.random() < 0.1:
            # A second triggerer takes the first one for dead, and runs the trigger as well.
            self._start_trigger(deferral)

    def _start_trigger(self, deferral: Deferred) -> None:
        on_end = partial(self._trigger_ended, deferral)
        trigger = self._new_process(f"{self.name} trigger", on_end)
        trigger.knowledge.is_trigger = True
        # If a triggerer is frozen, another one takes over its triggers.
        trigger.on_frozen = lambda seconds: self._trigger_lost(deferral, seconds)
        if trigger.doom is not None and trigger.doom.kind not in ("kill", "freeze"):
            trigger.doom = None
        goes_on = partial(self._goes_on, deferral)
        work = partial(leased_by_trigger, self.world, self.inbox, deferral.limit, deferral.seconds, goes_on)
        self.world.scheduler.start(trigger, work)

    def _goes_on(self, deferral: Deferred) -> bool:
        """Whether Airflow lets a trigger go on: it cancels one that no task waits for."""
        return deferral is self.deferral or not self._cancels_triggers

    @property
    def _cancels_triggers(self) -> bool:
        """
        Whether Airflow cancels a trigger that no task waits for, within a second as it really does.

        Elsewhere such a trigger goes on to lease for hours, which is harder, but delays messages and uses up
        their deliveries.
        """
        plan = self.world.plan
        return plan.longest_wait is not None or plan.spares_sound

    def _trigger_ended(self, deferral: Deferred, process: Process, outcome: Any) -> None:
        world = self.world
        self._must_be_expected(process, outcome)
        world.note(process, "ends", "an event" if isinstance(outcome, Event) else outcome)
        if deferral is not self.deferral:
            return  # Airflow drops the event of a trigger that no task waits for.
        if isinstance(outcome, Killed):
            self._trigger_lost(deferral)
        elif isinstance(outcome, Event):
            self.deferral = Deferred(deferral.limit, deferral.seconds, deferral.so_far)
            world.scheduler.after(world.hand_off_seconds(), lambda: self._execute(outcome))
        else:
            self.deferral = None
            self._failed(outcome, 0.0)

    def _trigger_lost(self, deferral: Deferred, seconds: float = math.inf) -> None:
        if seconds > TRIGGERER_SECONDS:
            self.world.scheduler.after(TRIGGERER_SECONDS, lambda: self._trigger_again(deferral))

    def _trigger_again(self, deferral: Deferred) -> None:
        if deferral is self.deferral:
            self._start_trigger(deferral)
