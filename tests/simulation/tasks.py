"""The work of the processes of a listener: one try of a sensor or an operator, or a trigger."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSensorTimeout, TaskDeferred
from greenlet import getcurrent

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
from airflow_provider_workflow.dispatch.lease import lease_once
from airflow_provider_workflow.dispatch.results import Counts
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.runs import TaskRuns
from airflow_provider_workflow.dispatch.schema import checker
from airflow_provider_workflow.limits import Limits
from airflow_provider_workflow.operators.inbox import drain_inbox
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.simulation.plan import CPU_SECONDS, MATCH, OPERATOR, POKE, SCHEMA, Plan
from tests.simulation.service import Hook

if TYPE_CHECKING:
    from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World

T = TypeVar("T")

SETTLE_SECONDS = 6.0
TIMEOUT_SECONDS = 4 * 3600.0
_CHECK = checker(SCHEMA)


def check(payload: Any) -> None:
    """The check of the schema, which takes the CPU time that the payload names."""
    if isinstance(payload, dict) and (seconds := payload.get(CPU_SECONDS)):
        process: Any = getcurrent()
        clock.sleep(seconds)
        process.cpu_seconds += seconds
        process.knowledge.has_checked(clock.now())
    _CHECK(payload)


class Deferred(Exception):
    """
    The task is deferred.

    :param limit: maximum number of messages in the next lease; 0 for a trigger that only waits.
    :param seconds: length of the next lease.
    :param so_far: the counters until now.
    """

    def __init__(self, limit: int, seconds: int, so_far: dict[str, Any]) -> None:
        super().__init__("deferred")
        self.limit, self.seconds, self.so_far = limit, seconds, so_far


@dataclass
class Event:
    """
    The event of a trigger, which hands off a lease.

    :param text: the lease as text; empty if the task should only poll.
    """

    text: str
    inbox_id: str
    lease_id: str
    ends_at: float


@dataclass
class Try:
    """
    One try of a task in a process.

    :param event: the event of its trigger, if it is resumed.
    :param so_far: the counters from before its deferral.
    """

    world: World
    process: Process
    kind: str
    inbox: str
    context: dict[str, Any]
    event: Event | None = None
    so_far: dict[str, Any] | None = None

    def work(self) -> Any:
        """Run the task; return its result, or raise its error."""
        if self.kind == OPERATOR:
            return self._operate()
        sensor = new_sensor(self.world, self.inbox, deferrable=self.kind != POKE)
        self.process.on_term = sensor.on_kill
        if self.kind == POKE:
            return self._poke(sensor)
        event: dict[str, Any] = {"status": "poll"}
        if self.event is not None and self.event.text:
            event = {"status": "leased", "inbox_name": self.inbox, "lease": self.event.text}
        so_far, deadline = self.so_far, clock.now() + TIMEOUT_SECONDS
        try:
            return self._poll(lambda: sensor.resume(self.context, event, deadline=deadline, so_far=so_far))  # type: ignore[arg-type]
        except TaskDeferred as deferral:
            trigger = cast("WorkflowInboxTrigger", deferral.trigger)
            limit = 0 if trigger.hold_seconds else trigger.lease_limit
            raise Deferred(limit, trigger.lease_seconds, (deferral.kwargs or {})["so_far"]) from None

    def _poke(self, sensor: WorkflowInboxSensor) -> Any:
        """Run a sensor in the mode poke."""
        plan, pause = self.world.plan, self.world.plan.poll_seconds
        deadline = clock.now() + TIMEOUT_SECONDS
        while clock.now() < deadline:
            try:
                value = self._poll(lambda: sensor.poke(self.context).xcom_value)  # type: ignore[arg-type]
            except AirflowFailException:
                raise
            except Exception as error:
                if not plan.silent_fail:
                    raise
                self.world.note(self.process, "poll", error)
                value = None
            if value is not None:
                return value
            clock.sleep(pause)
            pause = min(pause * 2, plan.longest_poll_seconds)
        raise AirflowSensorTimeout("nothing more to do")

    def _operate(self) -> Any:
        """Run the dispatch operator."""
        plan, hook = self.world.plan, Hook(self.world)
        routes = Routes(plan.targets, MATCH, plan.once_per)
        ti, rules = self.context["ti"], None
        if plan.dead_letter_dag_id is not None:
            rules = DeadLetterRules(plan.dead_letter_dag_id, plan.dead_letter_after, plan.unmatched)
        limits = Limits(plan.lease_limit, plan.lease_seconds, plan.max_messages, plan.max_unfinished_runs)
        parts: Any = hook, self.inbox, routes, TaskRuns(ti), limits
        dispatcher = Dispatcher(
            *parts,
            attempt=ti.try_number,
            check_payload=check,
            dead_letter_rules=rules,
            store=self.world.bucket,  # type: ignore[arg-type]
        )

        def on_kill() -> None:
            dispatcher.task.kill(self.inbox)

        self.process.on_term = on_kill
        self._poll(lambda: drain_inbox(dispatcher, on_paused="log"))
        if dispatcher.counts.causes and plan.on_rejected == "fail":
            raise AirflowFailException(dispatcher.counts.rejected_text())
        return dispatcher.counts.result

    def _poll(self, act: Callable[[], T]) -> T:
        ledger = self.world.ledger
        ledger.poll_began(self.process)
        try:
            value = act()
        except BaseException as error:
            ledger.poll_ended(self.process, error)
            raise
        ledger.poll_ended(self.process, None)
        return value


def new_sensor(world: World, inbox: str, *, deferrable: bool) -> WorkflowInboxSensor:
    """A sensor of the plan, in a process that begins to poll; a copy, as an operator takes long to make."""
    plan = world.plan
    if (inbox, deferrable) not in world.sensors:
        world.sensors[inbox, deferrable] = _sensor_of(plan, inbox, deferrable=deferrable)
    sensor = copy(world.sensors[inbox, deferrable])
    sensor.hook = Hook(world)  # type: ignore[assignment]
    sensor.counts = Counts()
    return sensor


def _sensor_of(plan: Plan, inbox: str, *, deferrable: bool) -> WorkflowInboxSensor:
    return WorkflowInboxSensor(
        task_id="start_runs",
        inbox=inbox,
        trigger_dag_id=plan.targets,
        match=MATCH,
        once_per=plan.once_per,
        schema=SCHEMA,
        max_messages=plan.max_messages,
        max_unfinished_runs=plan.max_unfinished_runs,
        on_rejected=plan.on_rejected,
        on_paused="wait",
        dead_letter_dag_id=plan.dead_letter_dag_id,
        dead_letter_after=plan.dead_letter_after if plan.dead_letter_dag_id else 3,
        unmatched=plan.unmatched if plan.dead_letter_dag_id else "lease",
        lease_limit=plan.lease_limit,
        lease_seconds=plan.lease_seconds,
        deferrable=deferrable,
    )


def leased_by_trigger(
    world: World, inbox: str, limit: int, seconds: int, goes_on: Callable[[], bool]
) -> Event | None:
    """What the trigger of the sensor does: it waits for messages, leases them, and hands them off."""
    clock.sleep(SETTLE_SECONDS)
    if limit == 0:
        clock.sleep(world.plan.poll_seconds)
        return Event("", "", "", 0.0)
    pause, hook = world.plan.poll_seconds, Hook(world)
    while goes_on():
        try:
            inbox_id = hook.get_inbox(inbox)["id"]
            lease = lease_once(hook, inbox_id, limit, seconds)  # type: ignore[arg-type]
        except WorkflowError as error:
            if not error.transient and "404" not in str(error) and "paused" not in str(error):
                raise
            lease = None
        if lease is not None:
            return Event(lease.hand_off(), inbox_id, lease.lease_id, lease.ends_at)
        clock.sleep(pause)
        pause = min(pause * 2, world.plan.longest_poll_seconds)
    return None
