"""``WorkflowInboxSensor``: waits for messages of a trigger inbox; starts DAG runs of them or returns them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSensorTimeout
from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_provider_workflow import clock
from airflow_provider_workflow.airflow_internals import airflow_release, is_from_mapped
from airflow_provider_workflow.client.arguments import flag
from airflow_provider_workflow.dispatch.targets import PILOT_SECONDS
from airflow_provider_workflow.links import StartedRunsLink
from airflow_provider_workflow.options import (
    can_start_from_trigger,
    check_acknowledge,
    check_choice,
    check_intervals,
    check_limits,
    check_routes,
    check_sensor_options,
    check_trigger_arguments,
    deferrable_or_default,
    refuse_mapped_start_from_trigger,
)
from airflow_provider_workflow.rendering import ROUTED, RendersStrings

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.sensors.work import Work


class WorkflowInboxSensor(RendersStrings, BaseSensorOperator):
    """
    Waits until an inbox has messages, then starts DAG runs of them or returns them.

    With ``trigger_dag_id`` every message starts exactly one DAG run (``dag_run.conf`` holds
    ``inbox_id`` and ``message``), is acknowledged after that, and the sensor returns the numbers of
    runs ``started`` and ``existing`` and of messages ``refused``, each with the first 100 ids.

    Without it the sensor returns the messages of one lease. With ``acknowledge="auto"`` they are
    stored, then acknowledged, and a retry or a cleared task returns them again (kept for 30 days).
    With ``"manual"`` it returns the lease, for ``WorkflowAcknowledgeOperator`` after the work.

    While the service is unreachable, or limits the rate, there is nothing yet (a WARNING says so);
    a permanent error fails the task, as does an acknowledgement that fails for good.

    Delivery is at-least-once and unordered (docs/service.md 3.2). A message that Airflow refuses is
    neither acknowledged nor released: it is redelivered when its lease expires, until the service
    quarantines it.

    :param inbox: id or name of the inbox (templated).
    :param trigger_dag_id: DAG to start for each message, or DAG ids with the JMESPath expression that
        each is chosen by, tried in order (templated).
    :param acknowledge: ``auto`` (the default; Airflow 3.3+) or ``manual``; only without ``trigger_dag_id``.
    :param max_messages: messages at most, 1 or more; None for all that are there.
    :param max_unfinished_runs: runs of the target DAG that may be queued and running at once, 1 or more;
        while there is no capacity nothing is leased.
    :param on_refused: ``fail`` fails the task at its end where a message was rejected, ``log`` only logs it.
        Without ``trigger_dag_id`` it fails where nothing else was received: the good messages of a lease
        are returned, and the refused one is redelivered.
    :param on_paused: ``fail`` or ``wait``, for an inbox that is paused and has no more messages.
    :param match: JMESPath expression over a message (templated); what it is false for is left to its lease,
        and so ends in quarantine where nobody else takes it.
    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 60 to 3600 s.
    :param poll_interval: seconds between polls, above 0; while the inbox stays empty it doubles where
        the sensor is deferred. In the modes poke and reschedule it is the interval; in the latter at
        least ``[workers] min_heartbeat_interval`` and 1 s.
    :param max_poll_interval: seconds that it doubles up to.
    :param wake_on_events: also listen to the inbox's event stream while deferred.
    :param start_from_trigger: begin in the triggerer, without a worker (Airflow 3.3+, with
        ``deferrable`` and ``trigger_dag_id``); not with ``partial().expand()``, nor with another task's
        output as ``inbox`` or ``workflow_conn_id``.
    :param workflow_conn_id: id of the Airflow connection (templated).
    :param deferrable: wait in the triggerer; None takes ``[operators] default_deferrable``. Airflow's own
        ``silent_fail`` and ``max_wait`` are for the modes poke and reschedule, and refused with it.
    """

    template_fields: Sequence[str] = ("inbox", "trigger_dag_id", "match", "workflow_conn_id")
    STRINGS = {**ROUTED, "workflow_conn_id": ()}  # noqa: RUF012 see RendersStrings
    template_fields_renderers = {"trigger_dag_id": "json"}  # noqa: RUF012 Airflow's own form
    ui_color = "#dbe7ff"
    operator_extra_links = (StartedRunsLink(),)
    start_from_trigger = False

    def __init__(
        self,
        *,
        inbox: str,
        trigger_dag_id: str | Mapping[str, str] | None = None,
        acknowledge: str | None = None,
        max_messages: int | None = None,
        max_unfinished_runs: int | None = None,
        on_refused: str = "fail",
        on_paused: str = "fail",
        match: str | None = None,
        lease_limit: int = 100,
        lease_seconds: int = 300,
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        wake_on_events: bool = True,
        start_from_trigger: bool = False,
        workflow_conn_id: str = "workflow_default",
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        check_intervals(poll_interval, max_poll_interval, kwargs)
        super().__init__(poke_interval=poll_interval, **kwargs)
        self.limits = check_limits(lease_limit, lease_seconds, max_messages, max_unfinished_runs)
        check_routes(trigger_dag_id, match)
        self.inbox = inbox
        self.trigger_dag_id = trigger_dag_id
        self.match = match
        self.on_refused = check_choice("on_refused", on_refused, ("fail", "log"))
        self.on_paused = check_choice("on_paused", on_paused, ("fail", "wait"))
        self.poll_interval, self.max_poll_interval = poll_interval, max_poll_interval
        self.wake_on_events = flag("wake_on_events", wake_on_events)
        self.workflow_conn_id = workflow_conn_id
        self.deferrable = deferrable_or_default(deferrable)
        check_sensor_options(self.deferrable, self.silent_fail, self.max_wait, max_poll_interval)
        self.acknowledge = check_acknowledge(acknowledge, trigger_dag_id, max_unfinished_runs, self.retries)
        if self.retry_exponential_backoff and airflow_release() >= (3, 3) and self.retry_policy is None:
            self._back_off_after_errors_only()
        if flag("start_from_trigger", start_from_trigger):
            self._begin_in_the_triggerer()

    def _back_off_after_errors_only(self) -> None:
        """Replace Airflow's back-off, which counts killed tries as well."""
        from airflow_provider_workflow.sensors.retry_pauses import ErrorBackoff

        # True stands for 2, and for Airflow 1 is no back-off at all.
        factor = 2.0 if self.retry_exponential_backoff is True else float(self.retry_exponential_backoff)
        self.retry_policy = ErrorBackoff(self.retry_delay, max(factor, 1.0), self.max_retry_delay)
        self.retry_exponential_backoff = 0

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """
        Begin a mapped sensor, as ``BaseOperator.partial`` does.

        :raises ValueError: ``start_from_trigger`` is given, which Airflow ignores where a task is mapped.
        """
        if kwargs.get("start_from_trigger"):
            refuse_mapped_start_from_trigger()
        return super().partial(**kwargs)

    def _begin_in_the_triggerer(self) -> None:
        if is_from_mapped(self):
            refuse_mapped_start_from_trigger()
        if not can_start_from_trigger(self.deferrable, self.trigger_dag_id, self.limits.max_unfinished_runs):
            return
        from airflow.triggers.base import StartTriggerArgs

        # The pilot: nothing has checked yet that its run can be started, and no try knows of the one before.
        trigger_kwargs = {**self.trigger_kwargs(1), "lease_seconds": PILOT_SECONDS}
        check_trigger_arguments(trigger_kwargs)
        self.start_from_trigger = True
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls="airflow_provider_workflow.triggers.inbox.WorkflowInboxTrigger",
            trigger_kwargs=trigger_kwargs,
            next_method="resume",
            timeout=timedelta(seconds=self.timeout),
        )

    def trigger_kwargs(self, lease_limit: int) -> dict[str, Any]:
        """
        What its trigger is made of.

        :param lease_limit: messages of the lease, 1 to 100.
        """
        return {
            "inbox": self.inbox,
            "workflow_conn_id": self.workflow_conn_id,
            "lease_limit": lease_limit,
            "lease_seconds": self.limits.lease_seconds,
            "poll_interval": self.poll_interval,
            "max_poll_interval": self.max_poll_interval,
            "wake_on_events": self.wake_on_events,
            "on_paused": self.on_paused,
        }

    @cached_property
    def _work(self) -> Work:
        """What polls, with the rendered arguments; a DAG file that is parsed loads none of it."""
        from airflow_provider_workflow.hooks.workflow import WorkflowHook
        from airflow_provider_workflow.sensors.work import Options, Work

        options = Options(
            inbox=self.inbox,
            trigger_dag_id=self.trigger_dag_id,
            match=self.match,
            acknowledge=self.acknowledge,
            on_refused=self.on_refused,
            on_paused=self.on_paused,
            limits=self.limits,
            # What it counted would be lost with its process.
            continues=self.deferrable or not self.reschedule,
        )
        return Work(WorkflowHook(self.workflow_conn_id), options)

    def execute(self, context: Context) -> Any:
        """
        Work on what is there; where nothing is, wait (in the triggerer, if deferrable).

        :raises TargetError: no runs of the target DAG can be started; what was leased is released, but for
            the message that showed it.
        :raises WorkflowError: the service cannot be used.
        """
        if self.deferrable:
            return self._poll_or_defer(context, clock.now() + self.timeout)
        from airflow_provider_workflow.dispatch.results import Tally

        self._work.tally = Tally()
        if self.reschedule:
            self._raise_short_intervals()
        with closing(self._work.hook):
            return super().execute(context)

    def on_kill(self) -> None:
        """
        Release the lease that is being worked on, if any, as the task is being ended.

        :raises TaskKilled: there is one.
        """
        if "_work" in vars(self) and self._work.is_working:
            from airflow_provider_workflow.dispatch.dispatcher import TaskKilled

            raise TaskKilled(f"The task was ended while it worked on a lease of the inbox {self.inbox}")

    def poke(self, context: Context) -> PokeReturnValue:
        """One poll of the inbox, for the modes poke and reschedule."""
        value = self._work.poll(context)
        # In the mode reschedule each poll has a process of its own.
        if value is None and not context.get("task_reschedule_count"):
            self._work.note_waiting(self.poke_interval)
        return PokeReturnValue(is_done=value is not None, xcom_value=value)

    def resume(
        self,
        context: Context,
        event: dict[str, Any] | None = None,
        deadline: float | None = None,
        so_far: dict[str, Any] | None = None,
        hold_seconds: float = 0,
    ) -> Any:
        """
        Go on with what the trigger brings.

        :param deadline: epoch seconds at which the sensor times out; None where it began in the trigger.
        :param so_far: what was done before it waited.
        :param hold_seconds: how long it waited for capacity, in seconds.
        """
        if deadline is None:
            deadline = context["ti"].start_date.timestamp() + self.timeout
        return self._poll_or_defer(context, deadline, event or {}, so_far, hold_seconds)

    def _raise_short_intervals(self) -> None:
        """Let no pause of the mode reschedule be shorter than Airflow takes to notice the process's end."""
        from airflow_provider_workflow.triggers.retrying import settle_seconds

        least = settle_seconds()
        if self.exponential_backoff:
            # Airflow's first pause is half of the interval, in whole seconds.
            least = 2 * math.ceil(least)
        self.poke_interval = max(self.poke_interval, least)
        if self.max_wait is not None:
            self.max_wait = max(self.max_wait, timedelta(seconds=least))

    def _poll_or_defer(
        self,
        context: Context,
        deadline: float,
        event: dict[str, Any] | None = None,
        so_far: dict[str, Any] | None = None,
        held: float = 0,
    ) -> Any:
        """
        Poll once, and defer where there is nothing to return yet.

        :param event: of the trigger; None before the first deferral.
        :param held: how long the sensor waited for capacity, in seconds.
        """
        from airflow_provider_workflow.dispatch.results import Tally
        from airflow_provider_workflow.sensors.work import lease_of, skipping_instead

        work = self._work
        with closing(work.hook), skipping_instead(soft_fail=self.soft_fail, never_fail=self.never_fail):
            work.tally = Tally.carried(so_far)
            lease = None if event is None else lease_of(self.inbox, event)
            value = work.poll(context, lease)
            if value is None:
                self._defer_until_messages(deadline, held)
            return value

    def _defer_until_messages(self, deadline: float, held: float) -> None:
        from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger
        from airflow_provider_workflow.triggers.retrying import settle_seconds

        tally, (limit, seconds) = self._work.tally, self._work.next_lease()
        left = deadline - clock.now()
        if left <= 0:
            done = f" {tally.handled} messages were worked on." if tally.handled else ""
            raise AirflowSensorTimeout(
                f"Inbox {self.inbox!r}: nothing more to do within {self.timeout:g} s.{done}"
            )
        # Without capacity the trigger leases nothing: it only wakes the sensor to check again.
        hold = 0.0 if limit else min(max(held * 2, self.poll_interval), self.max_poll_interval)
        kwargs = {**self.trigger_kwargs(max(1, limit)), "lease_seconds": seconds}
        self.defer(
            trigger=WorkflowInboxTrigger(**kwargs, settle_seconds=settle_seconds(), hold_seconds=hold),
            method_name="resume",
            kwargs={"deadline": deadline, "so_far": tally.carry(), "hold_seconds": hold},
            timeout=timedelta(seconds=left),
        )
