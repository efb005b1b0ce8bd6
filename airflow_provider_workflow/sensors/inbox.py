"""``WorkflowInboxSensor``: waits for messages of an inbox; starts DAG runs for them or returns them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    conf,
)
from airflow.sdk import BaseOperator, BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import TaskDeferralTimeout

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.arguments import flag, intervals
from airflow_provider_workflow.operators.base import DispatchingOperator, is_of_source
from airflow_provider_workflow.options import check_acknowledge, check_sensor_options
from airflow_provider_workflow.types import BY_USER

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.client.errors import WorkflowError
    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.dispatch.lease import HeldLease
    from airflow_provider_workflow.dispatch.receiving import Receiver
    from airflow_provider_workflow.dispatch.results import Counts
    from airflow_provider_workflow.triggers.polling import InboxHealth
    from airflow_provider_workflow.types import DispatchResult

log = logging.getLogger(__name__)

ALARM_POLL_SECONDS = 300.0
"""Interval of polls after an alarm, until the next one is due."""
ALARM_KEY = "workflow_alarm"
"""XCom: the type of the error of a source; empty once events arrive."""


class WorkflowInboxSensor(DispatchingOperator, BaseSensorOperator):
    """
    Waits until an inbox has messages, then starts DAG runs for them or returns them.

    With ``trigger_dag_id`` each message starts exactly one DAG run, whose conf has ``connection_id``,
    ``inbox_id`` and ``message``, and is acknowledged then. The sensor returns ``inbox_id``, and how many
    were ``started``, ``existing``, ``repeated``, ``rejected`` and ``dead_lettered``, with the first 100 ids.

    Without it the sensor returns the messages of one lease. With ``acknowledge="auto"`` they are
    stored, then acknowledged, and a retry or a cleared task returns them again (kept for 30 days).
    With ``"manual"`` it returns the lease, for ``WorkflowAcknowledgeOperator`` after the work.

    While the service is unreachable or limits the rate, the sensor waits. If the service has paused the
    inbox, it is missing or failed to initialize, or credentials are rejected, the second try fails the task.
    The next run then waits for 6 hours before it fails again, or is skipped.

    By default it retries errors for two and a half hours (75 retries); ``acknowledge="auto"`` needs 1 or
    more. Other arguments: :class:`~airflow_provider_workflow.operators.base.DispatchingOperator`.

    :param trigger_dag_id: as with the dispatch operator; None returns the messages (templated).
    :param acknowledge: ``auto`` (the default; Airflow 3.3+) or ``manual``; only without ``trigger_dag_id``.
    :param on_rejected: ``fail`` or ``log``. Without ``trigger_dag_id`` the task fails only if no other
        message was received: those of a lease are returned, and the rejected one is redelivered.
    :param poll_interval: seconds between polls, above 0. It doubles while the sensor is deferred and the
        inbox stays empty. In the mode reschedule at least ``[workers] min_heartbeat_interval`` + 5 s.
    :param max_poll_interval: maximum interval in seconds.
    :param wake_on_events: also listen to the inbox's event stream while deferred.
    :param deferrable: wait in the triggerer; None takes ``[operators] default_deferrable``. Airflow's own
        ``silent_fail`` and ``max_wait`` are for the modes poke and reschedule, and rejected with it.
    """

    ON_PAUSED = ("fail", "wait")
    MAY_START_NONE = True
    RETRIES = 75
    counts: Counts
    """The outcomes of messages so far, once the task runs."""
    _failed_polls = 0
    _has_waited = False
    _least_interval: float = 0
    _requested_wait: float = 0
    _alarm: Exception | None = None
    _was_sound = False
    _paused_reason: str | None = None

    def __init__(
        self,
        *,
        trigger_dag_id: str | Mapping[str, str] | None = None,
        acknowledge: str | None = None,
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        wake_on_events: bool = True,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        if "poke_interval" in kwargs:
            raise ValueError("poke_interval cannot be given: poll_interval is the interval in every mode")
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        intervals(poll_interval, max_poll_interval if deferrable else poll_interval)
        super().__init__(trigger_dag_id=trigger_dag_id, poke_interval=poll_interval, **kwargs)
        self.max_poll_interval = max_poll_interval
        self.wake_on_events = flag("wake_on_events", wake_on_events)
        self.deferrable = deferrable
        check_sensor_options(self.deferrable, self.silent_fail, self.max_wait, max_poll_interval)
        self.acknowledge = check_acknowledge(acknowledge, trigger_dag_id, self.limits.max_unfinished_runs)
        self._check_retries()

    def _check_retries(self) -> None:
        if self.acknowledge == "auto" and not self.retries:
            text = "a retry returns the messages that a killed try received"
            raise ValueError(f'retries must be 1 or more with acknowledge="auto": {text}')

    def execute(self, context: Context) -> Any:
        """
        Process the available messages; if there are none, wait (in the triggerer if deferrable).

        :raises TargetError: no runs of the target DAG can be started.
        :raises WorkflowError: the service cannot be used.
        """
        from airflow_provider_workflow.dispatch.results import Counts
        from airflow_provider_workflow.triggers.inbox import settle_seconds

        # Again, as a cluster policy may have set them since.
        self._check_retries()
        if self.deferrable:
            with self._skipped_on_failure():
                return self.resume(context, {"status": "poll"})
        self._read_rendered()
        self.counts = Counts()
        if self.reschedule:
            self._least_interval = settle_seconds(5)
            self.poke_interval = max(self.poke_interval, self._least_interval)
        self._usual_interval = self.poke_interval
        try:
            return super().execute(context)
        except AirflowSensorTimeout:
            if self._alarm is None:
                raise
        finally:
            self.hook.close()
        raise AirflowFailException(str(self._alarm)) from self._alarm

    def resume(
        self,
        context: Context,
        event: dict[str, Any] | None = None,
        *,
        deadline: float | None = None,
        so_far: dict[str, Any] | None = None,
        hold_seconds: float = 0,
        was_sound: bool = False,
    ) -> Any:
        """
        Continue with the event of the trigger: poll once, and defer if there is nothing to return.

        Each keyword has a default, as ``dag.test()`` passes only the event.

        :param deadline: epoch seconds at which the sensor times out; None for ``timeout`` from now on.
        :param so_far: the counters from before the deferral.
        :param hold_seconds: seconds that it waited for capacity.
        :param was_sound: whether events arrived at an earlier poll.
        """
        from airflow_provider_workflow.dispatch.results import Counts
        from airflow_provider_workflow.triggers.inbox import lease_of

        self._read_rendered()
        deadline = clock.now() + self.timeout if deadline is None else deadline
        self.counts = Counts.carried(so_far)
        value, self._was_sound = None, was_sound
        with self._failing_seldom(context), closing(self.hook):
            value = self._poll(context, lease_of(event or {}, self.workflow_conn_id))
        if value is None:
            self._defer_until_messages(deadline, hold_seconds)
        return value

    def resume_execution(self, next_method: str, next_kwargs: Any, context: Context) -> Any:
        """Not as the base class, which with ``soft_fail`` skips errors that a retry would pass."""
        with self._skipped_on_failure():
            return BaseOperator.resume_execution(self, next_method, next_kwargs, context)

    @contextmanager
    def _skipped_on_failure(self) -> Iterator[None]:
        """Apply ``soft_fail`` and ``never_fail`` as the mode poke does, for a deferrable sensor."""
        try:
            yield
        except Exception as error:
            final = isinstance(error, (AirflowSensorTimeout, TaskDeferralTimeout, AirflowFailException))
            if self.never_fail or (self.soft_fail and final):
                raise AirflowSkipException(f"Skipped instead of failing: {error}") from error
            if isinstance(error, TaskDeferralTimeout):
                raise AirflowSensorTimeout(*error.args) from error
            raise

    def poke(self, context: Context) -> PokeReturnValue:
        """Poll the inbox once, for the modes poke and reschedule."""
        from airflow_provider_workflow.dispatch.run_errors import TargetError

        value = None
        try:
            with self._failing_seldom(context):
                value = self._poll(context)
        except TargetError:
            # With silent_fail the sensor polls again in this process.
            self._failed_polls += 1
            raise
        # In the mode reschedule each poll has a process of its own.
        has_waited = self._has_waited or self._alarm or context.get("task_reschedule_count")
        if value is None and not has_waited:
            from airflow_provider_workflow.client.wire import host_of

            self._has_waited = True
            host, pause = host_of(self.hook.settings.base_url), self.poke_interval
            log.info("Inbox %s at %s: nothing to do yet; polling every %g s", self.inbox, host, pause)
        return PokeReturnValue(is_done=value is not None, xcom_value=value)

    @contextmanager
    def _failing_seldom(self, context: Context) -> Iterator[None]:
        """Fail for a source in the second try, but not again for the same error within 6 hours."""
        ti = context["ti"]
        try:
            yield
            if not (self._was_sound or self._health.errors) and self._paused_reason in (None, BY_USER):
                ti.xcom_push(ALARM_KEY, "")
                self._was_sound = True
                if self._alarm is not None:
                    self._alarm, self.poke_interval = None, self._usual_interval
        except Exception as error:
            if not is_of_source(error):
                raise
            self._reconnect()
            from airflow_provider_workflow.triggers.notice import ALARM_AGAIN_SECONDS

            # That run may be a success, as of a skipped task.
            name, before = type(error).__name__, ti.get_previous_dagrun()
            is_same = (
                before is not None
                and before.end_date is not None
                and clock.now() - before.end_date.timestamp() < ALARM_AGAIN_SECONDS
                and ti.xcom_pull(key=ALARM_KEY, run_id=before.run_id, map_indexes=ti.map_index) == name
            )
            ti.xcom_push(ALARM_KEY, name)
            if is_same and not self._was_sound:
                self._alarm = error
                self.poke_interval = max(self.poke_interval, ALARM_POLL_SECONDS)
                self._health.failed(error)
            elif is_same or ti.try_number > 1:
                raise AirflowFailException(str(error)) from error
            else:
                raise

    def _unreachable(self, error: WorkflowError) -> None:
        """Log a transient error, and poll again later."""
        from airflow_provider_workflow.client.errors import requested_wait

        self._health.failed(error)
        self._reconnect()
        if self.reschedule:
            # The process of the next poll does not know of it.
            self._requested_wait = requested_wait(error)

    def _get_next_poke_interval(
        self, started_at: datetime | float, run_duration: Callable[[], float], poke_count: int
    ) -> float:
        """As Airflow's, but not too short; and as long as the service requests, until the timeout."""
        seconds = super()._get_next_poke_interval(started_at, run_duration, poke_count)
        requested = min(self._requested_wait, self.timeout - run_duration())
        return max(seconds, self._least_interval, requested)

    def _defer_until_messages(self, deadline: float, held: float) -> None:
        from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
        from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger, settle_seconds

        counts, remaining = self.counts, deadline - clock.now()
        if remaining <= 0 and self._alarm is not None:
            raise AirflowFailException(str(self._alarm)) from self._alarm
        if remaining <= 0:
            done = f" {counts.handled} messages were worked on." if counts.handled else ""
            text = f"nothing more to do within {self.timeout:g} s.{done}"
            raise AirflowSensorTimeout(f"Inbox {self.inbox!r}: {text}")
        limit, seconds = self.limits.first_lease, self.limits.lease_seconds
        if isinstance(self._worker, Dispatcher):
            # After started runs the sensor only waits for capacity, and ends when the inbox is empty.
            limit, seconds = (0, seconds) if counts.handled else self._worker.next_lease()
        longest = max(self.max_poll_interval, self.poke_interval)
        # Without capacity the trigger leases nothing: it only resumes the task after ``hold`` seconds.
        hold = 0.0 if limit else min(max(held * 2, self.poke_interval), longest)
        # The task ends its time itself: at a timeout of the trigger Airflow names no cause.
        hold = min(hold if self._alarm is None else ALARM_POLL_SECONDS, remaining)
        so_far = {"so_far": asdict(counts), "was_sound": self._was_sound}
        trigger = WorkflowInboxTrigger(
            inbox=self.inbox,
            workflow_conn_id=self.workflow_conn_id,
            lease_limit=max(1, limit),
            lease_seconds=seconds,
            poll_interval=self.poke_interval,
            max_poll_interval=longest,
            wake_on_events=self.wake_on_events,
            on_paused=self.on_paused,
            settle_seconds=settle_seconds(),
            hold_seconds=hold,
        )
        self.defer(
            trigger=trigger,
            method_name="resume",
            kwargs={"deadline": deadline, "hold_seconds": hold, **so_far},
            timeout=timedelta(seconds=remaining + (hold and max(hold, settle_seconds()))),
        )

    def _poll(self, context: Context, lease: HeldLease | None = None) -> Any:
        """
        Process the lease of a trigger, then further messages; None if the sensor has to wait.

        A transient error of a lease request counts as an empty inbox.
        """
        from airflow_provider_workflow.client.errors import InboxPausedError
        from airflow_provider_workflow.dispatch.receiving import Receiver
        from airflow_provider_workflow.dispatch.routing import Routes

        if lease is not None and lease.seconds_left() <= 0:
            log.info("Inbox %s: a lease ended before the task resumed; leasing again", self.inbox)
            # Expired by this clock; by the service's clock it may still hold its messages.
            lease.release(self.hook, lease.message_ids)
            lease = None
        reason_before, self._paused_reason = self._paused_reason, None
        try:
            if self.trigger_dag_id is None:
                routes = Routes(None, self.match)
                self._worker = Receiver(
                    self.hook, self.inbox, routes, context, self.counts, ended=self._killed
                )
                value: Any = self._receive(self._worker, lease)
            else:
                self._worker = self._new_dispatcher(context, self._failed_polls, counts=self.counts)
                value = self._dispatch(self._worker, lease)
        except InboxPausedError as paused:
            self._paused_reason = paused.paused_reason
            value = self._paused(is_new=self._paused_reason != reason_before)
        # Received messages are returned first, or a rejected one would hold up the others.
        at_the_end = value is None if self.trigger_dag_id is None else value is not None
        if self.counts.causes and self.on_rejected == "fail" and at_the_end:
            raise AirflowFailException(self.counts.rejected_text())
        return value

    def _dispatch(self, dispatcher: Dispatcher, lease: HeldLease | None) -> DispatchResult | None:
        from airflow_provider_workflow.dispatch.results import Drained

        drained = dispatcher.drain(lease)
        if dispatcher.unreachable is not None:
            self._unreachable(dispatcher.unreachable)
        else:
            self._health.succeeded()
        # In the mode reschedule the counters would be lost with the process.
        continues = self.deferrable or not self.reschedule
        unfinished = drained in (Drained.NO_CAPACITY, Drained.UNREACHABLE)
        if self.counts.handled == 0 or (unfinished and continues):
            return None
        return self.counts.result

    def _receive(self, receiver: Receiver, lease: HeldLease | None) -> Any:
        auto = self.acknowledge == "auto"
        if auto and lease is None and (stored := receiver.stored()) is not None:
            return stored
        lease = lease or self._lease()
        if lease is None:
            return None
        return (receiver.take(lease) if auto else receiver.lend(lease)) or None

    def _lease(self) -> HeldLease | None:
        from airflow_provider_workflow.client.errors import WorkflowError
        from airflow_provider_workflow.dispatch.lease import lease_once

        try:
            inbox_id = self.hook.get_inbox(self.inbox)["id"]
            limits = self.limits
            lease = lease_once(self.hook, inbox_id, limits.first_lease, limits.lease_seconds, margin=0)
        except WorkflowError as error:
            if not error.transient:
                raise
            self._unreachable(error)
            return None
        self._health.succeeded()
        return lease

    def _paused(self, *, is_new: bool) -> DispatchResult | None:
        from airflow_provider_workflow.client.wire import plain
        from airflow_provider_workflow.dispatch.run_errors import InboxNotActiveError

        reason = self._paused_reason or ""
        done = self.counts.handled > 0 and self.trigger_dag_id is not None
        if self.on_paused == "fail" and reason != BY_USER and not done:
            raise InboxNotActiveError(self.inbox, reason, self.workflow_conn_id) from None
        if is_new:
            log.warning("Inbox %s is paused: %s", self.inbox, plain(reason))
        return self.counts.result if done else None

    @cached_property
    def _health(self) -> InboxHealth:
        from airflow_provider_workflow.triggers.polling import InboxHealth

        return InboxHealth(self.inbox, log)
