"""How a ``WorkflowInboxSensor`` waits: on its worker, or by way of its trigger."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSensorTimeout

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.settings import host_of
from airflow_provider_workflow.dispatch.dispatcher import TaskKilled
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.results import Tally
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.sensors.deferring import lease_of, skipping_instead
from airflow_provider_workflow.sensors.work import Checks, Orders, Work
from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger
from airflow_provider_workflow.triggers.retrying import Faults, settle_seconds

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

log = logging.getLogger(__name__)


class Waiting:
    """
    What one process does of a sensor's wait.

    One connection serves all looks of a sensor that pokes, and a series of faults is said once.

    :param asked: the sensor, its templates rendered.
    """

    def __init__(self, asked: WorkflowInboxSensor) -> None:
        self._asked = asked
        self._hook = WorkflowHook(asked.workflow_conn_id)
        self._faults = Faults(asked.inbox, log)
        self._so_far = Tally()
        self._checks = Checks()
        self._work_now: Work | None = None
        self._waits = False

    # Poking

    @contextmanager
    def poking(self) -> Iterator[None]:
        """Begin to poke, and end it."""
        self._so_far = Tally()
        if self._asked.reschedule:
            self._stay_away_long_enough()
        with closing(self._hook):
            yield

    def _stay_away_long_enough(self) -> None:
        """Let no pause of the mode reschedule be shorter than Airflow takes to notice the process's end."""
        asked, least = self._asked, settle_seconds()
        if asked.exponential_backoff:
            # Airflow's first pause is half of the interval, in whole seconds.
            least = 2 * math.ceil(least)
        asked.poke_interval = max(asked.poke_interval, least)
        if asked.max_wait is not None:
            asked.max_wait = max(asked.max_wait, timedelta(seconds=least))

    def poke(self, context: Context) -> Any:
        """One look; None where there is nothing to return yet."""
        value = self._work(context, self._so_far).look()
        # In the mode reschedule each poll has a process of its own.
        if value is None and not self._waits and not context.get("task_reschedule_count"):
            self._waits = True
            log.info(
                "Inbox %s at %s: nothing to do yet; polling every %g s",
                self._asked.inbox,
                host_of(self._hook.settings.base_url),
                self._asked.poke_interval,
            )
        return value

    # Deferring

    def begin(self, context: Context) -> Any:
        """Look, and defer where there is nothing to return yet."""
        deadline = clock.now() + self._asked.timeout
        with self._on_the_worker():
            return self._look_or_wait(context, Tally(), deadline)

    def go_on(
        self,
        context: Context,
        event: dict[str, Any],
        deadline: float | None,
        so_far: dict[str, Any] | None,
        held: float,
    ) -> Any:
        """See ``WorkflowInboxSensor.resume``."""
        if deadline is None:
            deadline = context["ti"].start_date.timestamp() + self._asked.timeout
        with self._on_the_worker():
            lease = lease_of(self._asked.inbox, event)
            return self._look_or_wait(context, Tally.carried(so_far), deadline, lease, held)

    @contextmanager
    def _on_the_worker(self) -> Iterator[None]:
        with (
            closing(self._hook),
            skipping_instead(soft_fail=self._asked.soft_fail, never_fail=self._asked.never_fail),
        ):
            yield

    def _look_or_wait(
        self,
        context: Context,
        tally: Tally,
        deadline: float,
        lease: HeldLease | None = None,
        held: float = 0,
    ) -> Any:
        work = self._work(context, tally)
        value = work.look(lease)
        if value is None:
            self._wait(work, deadline, held)
        return value

    def _wait(self, work: Work, deadline: float, held: float) -> None:
        asked, (limit, seconds) = self._asked, work.next_lease()
        left = deadline - clock.now()
        if left <= 0:
            done = f" {work.tally.handled} messages were worked on." if work.tally.handled else ""
            raise AirflowSensorTimeout(
                f"Inbox {asked.inbox!r}: nothing more to do within {asked.timeout:g} s.{done}"
            )
        # Without room the trigger leases nothing: it only wakes the sensor to ask again.
        hold = 0.0 if limit else min(max(held * 2, asked.poll_interval), asked.max_poll_interval)
        kwargs = {**asked.trigger_kwargs(max(1, limit)), "lease_seconds": seconds}
        asked.defer(
            trigger=WorkflowInboxTrigger(**kwargs, settle_seconds=settle_seconds(), hold_seconds=hold),
            method_name="resume",
            kwargs={"deadline": deadline, "so_far": work.tally.carry(), "hold_seconds": hold},
            timeout=timedelta(seconds=left),
        )

    def _work(self, context: Context, tally: Tally) -> Work:
        asked = self._asked
        orders = Orders(
            inbox=asked.inbox,
            trigger_dag_id=asked.trigger_dag_id,
            match=asked.match,
            acknowledge=asked.acknowledge,
            on_refused=asked.on_refused,
            on_paused=asked.on_paused,
            limits=asked.limits,
            # What it counted would be lost with its process.
            goes_on=asked.deferrable or not asked.reschedule,
        )
        self._work_now = Work(self._hook, orders, context, tally, self._faults, self._checks)
        return self._work_now

    # Ending

    def interrupt(self) -> None:
        """
        End the work on a lease where it is, so that the lease is released; nothing, where there is none.

        :raises TaskKilled: there is.
        """
        if self._work_now is not None and self._work_now.is_working:
            raise TaskKilled(
                f"The task was ended while it worked on a lease of the inbox {self._asked.inbox}"
            )
