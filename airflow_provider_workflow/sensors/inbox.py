"""``WorkflowInboxSensor``: waits for messages of an inbox; starts DAG runs for them or returns them."""

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
from airflow_provider_workflow.client.arguments import flag
from airflow_provider_workflow.links import StartedRunsLink
from airflow_provider_workflow.options import (
    check_acknowledge,
    check_choice,
    check_dead_letters,
    check_intervals,
    check_limits,
    check_routes,
    check_sensor_options,
    deferrable_or_default,
    render_routed,
    rendered,
)
from airflow_provider_workflow.retry_defaults import RetriesByDefault

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.sensors.work import Work


class WorkflowInboxSensor(RetriesByDefault, BaseSensorOperator):
    """
    Waits until an inbox has messages, then starts DAG runs for them or returns them.

    With ``trigger_dag_id`` each message starts exactly one DAG run, whose conf has ``inbox_id`` and
    ``message``, and is acknowledged then. The sensor returns ``inbox_id``, the numbers of runs ``started``
    and ``existing``, and of messages ``refused`` and ``dead_lettered``, each with the first 100 ids.

    Without it the sensor returns the messages of one lease. With ``acknowledge="auto"`` they are
    stored, then acknowledged, and a retry or a cleared task returns them again (kept for 30 days).
    With ``"manual"`` it returns the lease, for ``WorkflowAcknowledgeOperator`` after the work.

    While the service is unreachable or limits the rate, the sensor logs a WARNING and waits. A permanent
    error, or an acknowledgement that fails permanently, fails the task.

    Delivery is at-least-once and unordered (docs/service.md 3.2). A message that Airflow rejects is
    neither acknowledged nor released: it is redelivered when its lease expires, until the service
    quarantines it.

    By default it has 20 retries, with pauses that double from 10 s to 10 minutes, so it retries errors for
    two and a half hours. Airflow's arguments (``retries``, ``retry_delay``, ``retry_exponential_backoff``,
    ``max_retry_delay``) and ``default_args`` win. ``acknowledge="auto"`` needs 1 retry or more.

    :param inbox: id or name of the inbox (templated).
    :param trigger_dag_id: DAG to start for each message, or DAG ids with the JMESPath expression that
        each is chosen by, tried in order (templated).
    :param acknowledge: ``auto`` (the default; Airflow 3.3+) or ``manual``; only without ``trigger_dag_id``.
    :param max_messages: maximum number of messages, 1 or more; None for all available ones.
    :param max_unfinished_runs: runs of the target DAG that may be queued and running at once, 1 or more;
        without capacity nothing is leased.
    :param on_refused: ``fail`` fails the task at its end if a message was rejected, ``log`` only logs it.
        With ``dead_letter_dag_id`` the task fails only if that DAG rejected the message too.
        Without ``trigger_dag_id`` the task fails only if no other message was received: the other messages
        of a lease are returned, and the rejected one is redelivered.
    :param on_paused: ``fail`` or ``wait``, for an inbox that is paused and has no more messages.
    :param match: JMESPath expression over a message (templated). A message for which it is false is not
        acknowledged, and is quarantined in the end unless another consumer acknowledges it.
    :param dead_letter_dag_id: DAG to start for a message that Airflow keeps rejecting (templated); the
        message is then acknowledged. Only with ``trigger_dag_id``. Without a dead-letter DAG such a message
        is quarantined in the end.
    :param dead_letter_after: delivery count from which a rejected message is a dead letter, 1 to 4.
    :param unmatched: ``lease`` leaves a message that no route takes to its lease, for another consumer;
        with ``dead_letter`` it is a dead letter too, from the same delivery count on.
    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 60 to 3600 s.
    :param poll_interval: seconds between polls, above 0. It doubles while the sensor is deferred and the
        inbox stays empty. In the modes poke and reschedule it does not; in reschedule it is at least
        ``[workers] min_heartbeat_interval`` + 1 s.
    :param max_poll_interval: maximum interval in seconds.
    :param wake_on_events: also listen to the inbox's event stream while deferred.
    :param workflow_conn_id: id of the Airflow connection (templated).
    :param deferrable: wait in the triggerer; None takes ``[operators] default_deferrable``. Airflow's own
        ``silent_fail`` and ``max_wait`` are for the modes poke and reschedule, and rejected with it.
    """

    template_fields: Sequence[str] = (
        "inbox",
        "trigger_dag_id",
        "match",
        "dead_letter_dag_id",
        "workflow_conn_id",
    )
    template_fields_renderers = {"trigger_dag_id": "json"}  # noqa: RUF012 Airflow's own form
    ui_color = "#dbe7ff"
    operator_extra_links = (StartedRunsLink(),)
    RETRIES = 20

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
        dead_letter_dag_id: str | None = None,
        dead_letter_after: int = 3,
        unmatched: str = "lease",
        lease_limit: int = 100,
        lease_seconds: int = 300,
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        wake_on_events: bool = True,
        workflow_conn_id: str = "workflow_default",
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        check_intervals(poll_interval, max_poll_interval, kwargs)
        super().__init__(poke_interval=poll_interval, **kwargs)
        self.limits = check_limits(lease_limit, lease_seconds, max_messages, max_unfinished_runs)
        check_routes(trigger_dag_id, match)
        check_dead_letters(dead_letter_dag_id, dead_letter_after, unmatched, trigger_dag_id)
        self.dead_letter_dag_id = dead_letter_dag_id
        self.dead_letter_after, self.unmatched = dead_letter_after, unmatched
        self.inbox = inbox
        self.trigger_dag_id = trigger_dag_id
        self.match = match
        self.on_refused = check_choice("on_refused", on_refused, ("fail", "log"))
        self.on_paused = check_choice("on_paused", on_paused, ("fail", "wait"))
        self.max_poll_interval = max_poll_interval
        self.wake_on_events = flag("wake_on_events", wake_on_events)
        self.workflow_conn_id = workflow_conn_id
        self.deferrable = deferrable_or_default(deferrable)
        check_sensor_options(self.deferrable, self.silent_fail, self.max_wait, max_poll_interval)
        self.acknowledge = check_acknowledge(acknowledge, trigger_dag_id, max_unfinished_runs)
        self._check_retries()

    def _check_retries(self) -> None:
        if self.acknowledge == "auto" and not self.retries:
            raise ValueError(
                'retries must be 1 or more with acknowledge="auto":'
                " a retry returns the messages that a killed try received"
            )

    def trigger_kwargs(self, lease_limit: int) -> dict[str, Any]:
        """
        The arguments of its trigger.

        :param lease_limit: 1 to 100.
        """
        return {
            "inbox": self.inbox,
            "workflow_conn_id": self.workflow_conn_id,
            "lease_limit": lease_limit,
            "lease_seconds": self.limits.lease_seconds,
            "poll_interval": self.poke_interval,
            "max_poll_interval": max(self.max_poll_interval, self.poke_interval),
            "wake_on_events": self.wake_on_events,
            "on_paused": self.on_paused,
        }

    @cached_property
    def _work(self) -> Work:
        """Made from the rendered arguments when the task runs; parsing a DAG file does not import it."""
        from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
        from airflow_provider_workflow.hooks.workflow import WorkflowHook
        from airflow_provider_workflow.sensors.work import Options, Work

        render_routed(self)
        self.workflow_conn_id = rendered("workflow_conn_id", self.workflow_conn_id)
        dead_letters = self.dead_letter_dag_id
        options = Options(
            inbox=self.inbox,
            trigger_dag_id=self.trigger_dag_id,
            match=self.match,
            acknowledge=self.acknowledge,
            on_refused=self.on_refused,
            on_paused=self.on_paused,
            limits=self.limits,
            dead_letter_rules=DeadLetterRules(dead_letters, self.dead_letter_after, self.unmatched)
            if dead_letters
            else None,
            # In the mode reschedule the counters would be lost with the process.
            continues=self.deferrable or not self.reschedule,
        )
        return Work(WorkflowHook(self.workflow_conn_id), options)

    def execute(self, context: Context) -> Any:
        """
        Process the available messages; if there are none, wait (in the triggerer if deferrable).

        :raises TargetError: no runs of the target DAG can be started; the leased messages are released,
            except the one that was rejected.
        :raises WorkflowError: the service cannot be used.
        """
        # Again, as a cluster policy may have set them since.
        self._check_retries()
        if self.deferrable:
            return self._poll_or_defer(context, clock.now() + self.timeout)
        from airflow_provider_workflow.dispatch.results import Counts

        self._work.counts = Counts()
        if self.reschedule:
            self._raise_short_intervals()
        with closing(self._work.hook):
            return super().execute(context)

    def get_openlineage_facets_on_complete(self, _: Any) -> Any:
        """The inbox and the started runs; Airflow's OpenLineage provider calls this after the task."""
        from airflow_provider_workflow.lineage import of_inbox

        return of_inbox(self._work.hook, self.inbox, self.trigger_dag_id, self._work.counts.result)

    def on_kill(self) -> None:
        """
        Release the current lease, if any: Airflow is ending the task.

        :raises TaskKilled: the task was working on a lease.
        """
        if "_work" in vars(self) and self._work.is_working:
            from airflow_provider_workflow.dispatch.lease import TaskKilled

            raise TaskKilled(self.inbox)

    def poke(self, context: Context) -> PokeReturnValue:
        """Poll the inbox once, for the modes poke and reschedule."""
        value = self._work.poll(context)
        # In the mode reschedule each poll has a process of its own.
        if value is None and not context.get("task_reschedule_count"):
            self._work.log_waiting(self.poke_interval)
        return PokeReturnValue(is_done=value is not None, xcom_value=value)

    def resume(
        self,
        context: Context,
        event: dict[str, Any] | None = None,
        *,
        deadline: float,
        so_far: dict[str, Any] | None = None,
        hold_seconds: float = 0,
    ) -> Any:
        """
        Continue with the event of the trigger.

        :param deadline: epoch seconds at which the sensor times out.
        :param so_far: the counters from before the deferral.
        :param hold_seconds: seconds that it waited for capacity.
        """
        return self._poll_or_defer(context, deadline, event or {}, so_far, hold_seconds)

    def _raise_short_intervals(self) -> None:
        """Raise intervals of the mode reschedule to the time in which Airflow notices the process's end."""
        from airflow_provider_workflow.triggers.inbox import settle_seconds

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
        Poll once, and defer if there is nothing to return yet.

        :param event: the trigger's event; None before the first deferral.
        :param held: seconds that the sensor waited for capacity.
        """
        from airflow_provider_workflow.dispatch.results import Counts
        from airflow_provider_workflow.sensors.work import lease_of, skip_on_failure

        work = self._work
        with closing(work.hook), skip_on_failure(soft_fail=self.soft_fail, never_fail=self.never_fail):
            work.counts = Counts.carried(so_far)
            lease = None if event is None else lease_of(self.inbox, event)
            value = work.poll(context, lease)
            if value is None:
                self._defer_until_messages(deadline, held)
            return value

    def _defer_until_messages(self, deadline: float, held: float) -> None:
        from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger, settle_seconds

        counts, (limit, seconds) = self._work.counts, self._work.next_lease()
        left = deadline - clock.now()
        if left <= 0:
            done = f" {counts.handled} messages were worked on." if counts.handled else ""
            raise AirflowSensorTimeout(
                f"Inbox {self.inbox!r}: nothing more to do within {self.timeout:g} s.{done}"
            )
        # Without capacity the trigger leases nothing: it only resumes the task after ``hold`` seconds.
        kwargs = {**self.trigger_kwargs(max(1, limit)), "lease_seconds": seconds}
        hold = 0.0 if limit else min(max(held * 2, self.poke_interval), kwargs["max_poll_interval"])
        self.defer(
            trigger=WorkflowInboxTrigger(**kwargs, settle_seconds=settle_seconds(), hold_seconds=hold),
            method_name="resume",
            kwargs={"deadline": deadline, "so_far": counts.carry(), "hold_seconds": hold},
            timeout=timedelta(seconds=left),
        )
