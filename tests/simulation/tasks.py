"""What the processes of a listener do: one try of a sensor or an operator, or its trigger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSensorTimeout

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
from airflow_provider_workflow.dispatch.lease import HeldLease, TaskKilled, lease_once
from airflow_provider_workflow.dispatch.results import Counts
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.runs import TaskRuns
from airflow_provider_workflow.dispatch.targets import Limits
from airflow_provider_workflow.operators.inbox import drain_inbox
from airflow_provider_workflow.sensors.work import Options, Work
from tests.simulation.plan import OPERATOR, POKE
from tests.simulation.service import Hook

if TYPE_CHECKING:
    from tests.simulation.plan import Plan
    from tests.simulation.scheduler import Process
    from tests.simulation.world import World

T = TypeVar("T")

SETTLE_SECONDS = 6.0
TIMEOUT_SECONDS = 4 * 3600.0


class Deferred(Exception):
    """
    The task is deferred.

    :param limit: messages of the next lease; 0 for a trigger that only waits.
    :param seconds: length of the next lease.
    :param so_far: the counters.
    """

    def __init__(self, limit: int, seconds: int, so_far: dict[str, Any]) -> None:
        super().__init__("deferred")
        self.limit, self.seconds, self.so_far = limit, seconds, so_far


@dataclass
class Event:
    """
    What a trigger hands off.

    :param text: the lease; empty if the task should only poll.
    """

    text: str
    inbox_id: str
    lease_id: str
    ends_at: float


@dataclass
class Try:
    """
    One try of a task in a process.

    :param event: of its trigger, if it is resumed.
    :param so_far: the counters from before.
    """

    world: World
    process: Process
    kind: str
    inbox: str
    context: dict[str, Any]
    event: Event | None = None
    so_far: dict[str, Any] | None = None

    def work(self) -> Any:
        """Do it; return what the task returns, or raise what it raises."""
        if self.kind == OPERATOR:
            return self._operate()
        plan = self.world.plan
        work = Work(Hook(self.world), options_of(plan, self.inbox), Counts.carried(self.so_far))  # type: ignore[arg-type]
        self.process.on_term = lambda: self._on_kill(work.is_working)
        if self.kind == POKE:
            return self._poke(work)
        lease = None
        if self.event is not None and self.event.text:
            lease = replace(HeldLease.from_hand_off(self.event.text), inbox_id=self.event.inbox_id)
        value = self._poll(lambda: work.poll(self.context, lease))  # type: ignore[arg-type]
        if value is None:
            limit, seconds = work.next_lease()
            raise Deferred(limit, seconds, work.counts.carry())
        return value

    def _poke(self, work: Work) -> Any:
        """The mode poke of a sensor."""
        plan, pause = self.world.plan, self.world.plan.poll_seconds
        deadline = clock.now() + TIMEOUT_SECONDS
        while clock.now() < deadline:
            try:
                value = self._poll(lambda: work.poll(self.context))  # type: ignore[arg-type]
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
        """The dispatch operator."""
        plan, hook = self.world.plan, Hook(self.world)
        routes = Routes(plan.targets, plan.match)
        ti = self.context["ti"]
        given: Any = hook, self.inbox, routes, TaskRuns(ti), limits_of(plan)
        dispatcher = Dispatcher(*given, attempt=ti.try_number, dead_letter_rules=rules_of(plan))
        self.process.on_term = lambda: self._on_kill(dispatcher.working)

        def drain() -> None:
            dispatcher.check_targets()
            drain_inbox(dispatcher, on_paused="log")

        self._poll(drain)
        if dispatcher.counts.causes and plan.on_refused == "fail":
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

    def _on_kill(self, is_working: bool) -> None:
        if is_working:
            raise TaskKilled(self.inbox)


def limits_of(plan: Plan) -> Limits:
    return Limits(plan.lease_limit, plan.lease_seconds, plan.max_messages, plan.max_unfinished_runs)


def rules_of(plan: Plan) -> DeadLetterRules | None:
    if plan.dead_letter_dag_id is None:
        return None
    return DeadLetterRules(plan.dead_letter_dag_id, plan.dead_letter_after, plan.unmatched)


def options_of(plan: Plan, inbox: str) -> Options:
    return Options(
        inbox=inbox,
        trigger_dag_id=plan.targets,
        match=plan.match,
        acknowledge=None,
        on_refused=plan.on_refused,
        on_paused="wait",
        limits=limits_of(plan),
        continues=True,
        dead_letter_rules=rules_of(plan),
    )


def leased_by_trigger(world: World, inbox: str, limit: int, seconds: int) -> Event:
    """What the trigger of the sensor does: it waits for messages, leases them, and hands them off."""
    clock.sleep(SETTLE_SECONDS)
    if limit == 0:
        clock.sleep(world.plan.poll_seconds)
        return Event("", "", "", 0.0)
    pause, hook = world.plan.poll_seconds, Hook(world)
    while True:
        try:
            inbox_id = hook.get_inbox(inbox)["id"]
            lease = lease_once(hook, inbox_id, limit, seconds, inbox)  # type: ignore[arg-type]
        except WorkflowError as error:
            if not error.transient and "404" not in str(error) and "paused" not in str(error):
                raise
            lease = None
        if lease is not None:
            return Event(lease.hand_off(), inbox_id, lease.lease_id, lease.ends_at)
        clock.sleep(pause)
        pause = min(pause * 2, world.plan.longest_poll_seconds)
