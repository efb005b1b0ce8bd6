"""How a ``WorkflowInboxSensor`` waits: on its worker, or by way of its trigger."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSensorTimeout

from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.leases import HeldLease
from airflow_provider_workflow.sensors.deferring import lease_of, skipping_instead
from airflow_provider_workflow.sensors.work import Orders, Work
from airflow_provider_workflow.tally import Tally
from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger
from airflow_provider_workflow.triggers.patience import Faults, settle_seconds

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

    # Poking

    @contextmanager
    def poking(self) -> Iterator[None]:
        """Begin to poke, and end it."""
        self._so_far = Tally()
        if self._asked.reschedule:
            self._asked.poke_interval = max(self._asked.poke_interval, settle_seconds())
        with closing(self._hook):
            yield

    def poke(self, context: Context) -> Any:
        """One look; None where there is nothing to return yet."""
        return self._work(context, self._so_far).look()

    # Deferring

    def begin(self, context: Context) -> Any:
        """Look, and defer where there is nothing to return yet."""
        deadline = time.time() + self._asked.timeout
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
        asked, limit = self._asked, work.next_lease()
        left = deadline - time.time()
        if left <= 0:
            done = f" {work.tally.handled} messages were worked on." if work.tally.handled else ""
            raise AirflowSensorTimeout(
                f"Inbox {asked.inbox!r}: nothing more to do within {asked.timeout:g} s.{done}"
            )
        # Without room the trigger leases nothing: it only wakes the sensor to ask again.
        hold = 0.0 if limit else min(max(held * 2, asked.poll_interval), asked.max_poll_interval)
        kwargs = asked.trigger_kwargs(max(1, limit))
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
        return Work(self._hook, orders, context, tally, self._faults)
