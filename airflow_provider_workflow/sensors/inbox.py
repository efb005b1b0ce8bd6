"""``WorkflowInboxSensor``: waits for messages of an inbox; starts DAG runs for them or returns them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    conf,
)
from airflow.sdk import BaseOperator, BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import TaskDeferralTimeout

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.arguments import intervals, require_bool
from airflow_provider_workflow.operators.alarms import RaisesAlarms
from airflow_provider_workflow.operators.base import DispatchingOperator
from airflow_provider_workflow.options import (
    check_acknowledge,
    check_keeps_messages,
    check_sensor_options,
)
from airflow_provider_workflow.source import NO_STORE, SourceError, reading_pause
from airflow_provider_workflow.types import PAUSED

if TYPE_CHECKING:
    from typing import Unpack

    from airflow.sdk import Context

    from airflow_provider_workflow.arguments import DispatchSensorArguments
    from airflow_provider_workflow.client.errors import WorkflowError
    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.dispatch.lease import HeldLease
    from airflow_provider_workflow.dispatch.receiving import Receiver
    from airflow_provider_workflow.dispatch.results import Counts
    from airflow_provider_workflow.source import SourceProblem
    from airflow_provider_workflow.triggers.polling import InboxHealth
    from airflow_provider_workflow.types import DispatchResult

log = logging.getLogger(__name__)


class WorkflowInboxSensor(RaisesAlarms, DispatchingOperator, BaseSensorOperator):
    """
    Waits until an inbox has messages, then starts DAG runs for them or returns them.

    With ``trigger_dag_id`` each message starts exactly one DAG run, whose conf has ``connection_id``,
    ``inbox_id`` and ``message``, and is acknowledged then. The sensor returns ``inbox_id``, and how many
    were ``started``, ``existing``, ``repeated``, ``rejected`` and ``dead_lettered``, with the first 100 ids.

    Without it the sensor returns the messages of one lease. With ``acknowledge="auto"`` they are
    stored, then acknowledged, and a retry or a cleared task returns them again (kept for 30 days).
    With ``"manual"`` it returns the lease, for ``WorkflowAcknowledgeOperator`` after the work.

    While the service is unreachable or limits the rate, the sensor waits. If the service has paused the
    inbox, it is missing, is being deleted or failed to initialize, or credentials are rejected, at two polls
    at least 60 s apart, the task fails without a retry. Until the inbox was sound for an hour it fails again
    every 6 hours, and meanwhile works on messages as soon as there are any.

    By default it retries errors for two and a half hours (75 retries). A sensor that returns messages needs
    ``do_xcom_push=True``, and with ``acknowledge="auto"`` 1 or more retries. Other arguments:
    :class:`~airflow_provider_workflow.operators.base.DispatchingOperator`.

    :param trigger_dag_id: as with the dispatch operator; None returns the messages (templated).
    :param acknowledge: ``auto`` (the default; Airflow 3.3+) or ``manual``; only without ``trigger_dag_id``.
    :param on_rejected: ``fail`` or ``log``. Without ``trigger_dag_id`` the task fails only if no other
        message was received: those of a lease are returned, and the rejected one is redelivered.
    :param poll_interval: seconds between polls, above 0. It doubles while the sensor is deferred and the
        inbox stays empty. In the mode reschedule at least ``[workers] min_heartbeat_interval`` + 5 s.
    :param max_poll_interval: maximum interval in seconds.
    :param wake_on_events: also listen to the inbox's event stream while deferred.
    :param deferrable: wait in the triggerer; by default what ``[operators] default_deferrable`` says.
        Airflow's own ``silent_fail`` and ``max_wait`` are for the modes poke and reschedule, and rejected
        with it.
    """

    ON_PAUSED = ("fail", "wait")
    TARGET_IS_OPTIONAL = True
    RETRIES = 75
    on_paused: Literal["fail", "wait"]
    counts: Counts
    """The outcomes of messages so far, once the task runs."""
    _failed_polls = 0
    _has_waited = False
    _has_leased = False
    _least_interval: float = 0
    _requested_wait: float = 0
    _paused: SourceProblem | None = None
    """What the last poll found: a user or the service has paused the inbox."""

    def __init__(
        self,
        *,
        inbox: str,
        trigger_dag_id: str | Mapping[str, str] | None = None,
        acknowledge: Literal["auto", "manual"] | None = None,
        on_paused: Literal["fail", "wait"] = "fail",
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        wake_on_events: bool = True,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Unpack[DispatchSensorArguments],
    ) -> None:
        if "poke_interval" in kwargs:
            raise ValueError("poke_interval cannot be given: poll_interval is the interval in every mode")
        require_bool("deferrable", deferrable)
        intervals(poll_interval, max_poll_interval if deferrable else poll_interval)
        super().__init__(
            inbox=inbox,
            trigger_dag_id=trigger_dag_id,
            on_paused=on_paused,
            poke_interval=poll_interval,
            **kwargs,
        )
        self.max_poll_interval = max_poll_interval
        self.wake_on_events = require_bool("wake_on_events", wake_on_events)
        self.deferrable = deferrable
        check_sensor_options(self.deferrable, self.silent_fail, self.max_wait, max_poll_interval)
        self.acknowledge = check_acknowledge(acknowledge, trigger_dag_id, self.limits.max_unfinished_runs)
        self._check_keeps_messages()

    def _check_keeps_messages(self) -> None:
        check_keeps_messages(
            self.acknowledge,
            retries=self.retries,
            do_xcom_push=self.do_xcom_push,
            multiple_outputs=self.multiple_outputs,
        )

    def execute(self, context: Context) -> Any:
        """
        Process the available messages; if there are none, wait (in the triggerer if deferrable).

        :raises TargetError: no runs of the target DAG can be started.
        :raises WorkflowError: the service cannot be used.
        """
        from airflow_provider_workflow.dispatch.results import Counts
        from airflow_provider_workflow.triggers.inbox import settle_seconds

        # Again, as a cluster policy may have set them since.
        self._check_keeps_messages()
        if self.deferrable:
            with self._skipped_on_failure():
                return self.resume(context, {"status": "poll"})
        self._read_rendered()
        self.counts = Counts()
        if self.reschedule:
            self._least_interval = settle_seconds()
            self.poke_interval = max(self.poke_interval, self._least_interval)
        try:
            return super().execute(context)
        except AirflowSensorTimeout:
            self._raise_alarm_at_timeout(context)
            raise
        finally:
            self.hook.close()

    def resume(
        self,
        context: Context,
        event: dict[str, Any] | None = None,
        *,
        deadline: float | None = None,
        so_far: dict[str, Any] | None = None,
        hold_seconds: float = 0,
        alarm: dict[str, Any] | None = None,
        was_sound: bool = False,  # noqa: ARG002 of a hand-off of 0.2.0
    ) -> Any:
        """
        Continue with the event of the trigger: poll once, and defer if there is nothing to return.

        Each keyword has a default, as ``dag.test()`` passes only the event.

        :param deadline: epoch seconds at which the sensor times out; None for ``timeout`` from now on.
        :param so_far: the counters from before the deferral.
        :param hold_seconds: seconds that it waited for capacity.
        :param alarm: the trouble of the source from before the deferral; the trigger may know it better.
        """
        from airflow_provider_workflow.dispatch.results import Counts
        from airflow_provider_workflow.source import Alarm, SourceProblem
        from airflow_provider_workflow.triggers.inbox import lease_of

        self._check_keeps_messages()
        self._read_rendered()
        event = event or {}
        deadline = clock.now() + self.timeout if deadline is None else deadline
        self.counts = Counts.carried(so_far)
        self._alarm = Alarm.of(event.get("alarm") or alarm)
        with closing(self.hook):
            value = self._take_reading(
                context, lease_of(event, self.workflow_conn_id), SourceProblem.of(event.get("problem"))
            )
        if value is None:
            self._defer_until_messages(context, deadline, hold_seconds)
        return value

    def resume_execution(self, next_method: str, next_kwargs: Any, context: Context) -> Any:
        """
        Resume the task, and apply ``soft_fail`` and ``never_fail``.

        Airflow's own version skips on any error with ``soft_fail``, even on one that a retry would fix.
        """
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

        try:
            value = self._take_reading(context)
            if self.reschedule:
                # Each poll of this mode has a process of its own, which knows nothing of the others.
                began_at = clock.monotonic()
                while (
                    value is None
                    and self._alarm.is_unconfirmed
                    and clock.monotonic() - began_at < self._watch_seconds
                ):
                    clock.sleep(reading_pause())
                    value = self._take_reading(context)
        except TargetError:
            # With silent_fail the sensor polls again in this process.
            self._failed_polls += 1
            raise
        has_waited = self._has_waited or self._alarm.problem or context.get("task_reschedule_count")
        if value is None and not has_waited:
            from airflow_provider_workflow.text import host_of

            self._has_waited = True
            host, pause = host_of(self.hook.settings.base_url), self.poke_interval
            log.info("Inbox %s at %s: nothing to do yet; polling every %g s", self._inbox_name, host, pause)
        return PokeReturnValue(is_done=value is not None, xcom_value=value)

    def _take_reading(
        self, context: Context, lease: HeldLease | None = None, reported: SourceProblem | None = None
    ) -> Any:
        """
        Poll once; what that shows of the source is a reading of its alarm.

        :param lease: of the trigger.
        :param reported: the problem that the trigger found: an alarm even if the source is sound now.
        :return: the result of the sensor; None if it has to wait.
        :raises AirflowFailException: a problem is an alarm. Messages were worked on before; those that the
            sensor returns are returned first, or they would be lost.
        """
        from airflow_provider_workflow.source import problem_of_error

        value, problem = None, None
        try:
            value = self._poll(context, lease)
            problem = self._paused if self._paused and self._paused.is_alarm(self.on_paused) else None
        except Exception as error:
            problem = problem_of_error(error)
            if problem is None or problem.may_be_away:
                raise
            self._reconnect()
            self._health.failed(error)
        if problem is None and not self._health.errors:
            self._alarm.sound()
        if (problem := problem or reported) is None:
            if value is not None:
                self._store_alarm(context)
            return value
        self._found(problem, context)
        if self._alarm.is_due() and (value is None or self.trigger_dag_id is not None):
            self._raise_alarm(context, problem.text)
        if value is not None:
            self._store_alarm(context)
        return value

    def _raise_alarm_at_timeout(self, context: Context) -> None:
        """:raises AirflowFailException: the source is in trouble, which says more than a timeout."""
        if self._alarm.problem is not None:
            self._raise_alarm(context, self._alarm.problem.text)

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
        """
        As Airflow's, but not too short; and as long as the service requests, until the timeout.

        While the source is in trouble, polls are at random moments.
        """
        seconds = super()._get_next_poke_interval(started_at, run_duration, poke_count)
        requested = min(self._requested_wait, self.timeout - run_duration())
        pause = self._least_interval if self._alarm.problem is None else reading_pause()
        return max(seconds, self._least_interval, requested, pause)

    def _lease_of_trigger(self, context: Context) -> tuple[int, int]:
        """How many messages the trigger leases, and for how many seconds; 0 if the task has to wait."""
        from airflow_provider_workflow.dispatch.dispatcher import Dispatcher

        seconds = self.limits.lease_seconds
        if self._alarm.problem is not None and self._alarm.problem.kind == NO_STORE:
            return 0, seconds
        if isinstance(self._worker, Dispatcher):
            # After started runs the sensor only waits for capacity, and ends when the inbox is empty.
            return (0, seconds) if self.counts.handled else self._worker.next_lease()
        return self.limits.of_returned(context["ti"].try_number), seconds

    def _defer_until_messages(self, context: Context, deadline: float, held: float) -> None:
        from airflow_provider_workflow.dispatch.payload_store import PayloadStore
        from airflow_provider_workflow.text import counted
        from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger, settle_seconds

        counts, remaining = self.counts, deadline - clock.now()
        if remaining <= 0:
            self._raise_alarm_at_timeout(context)
            were = counted(counts.handled, "message was", "messages were")
            done = f" {were} worked on." if counts.handled else ""
            text = f"nothing more to do within {self.timeout:g} s.{done}"
            raise AirflowSensorTimeout(f"Inbox {self._inbox_name!r}: {text}")
        limit, seconds = self._lease_of_trigger(context)
        longest = max(self.max_poll_interval, self.poke_interval)
        # Without capacity, or a store for payloads, the trigger only resumes the task after ``hold`` seconds.
        hold = 0.0 if limit else min(max(held * 2, self.poke_interval), longest)
        hold, settle, alarm = min(hold, remaining), settle_seconds(), self._alarm.record()
        # After ``hold`` the task ends its time itself: at a timeout of the trigger Airflow names no cause.
        timeout = remaining + max(hold, settle) if hold else max(remaining, settle)
        trigger = WorkflowInboxTrigger(
            inbox=self.inbox,
            workflow_conn_id=self.workflow_conn_id,
            # What the trigger leases is a row of Airflow's database until the task resumes.
            lease_limit=0 if PayloadStore.configured() else max(1, limit),
            lease_seconds=seconds,
            poll_interval=self.poke_interval,
            max_poll_interval=longest,
            wake_on_events=self.wake_on_events,
            on_paused=self.on_paused,
            settle_seconds=settle,
            hold_seconds=hold,
            alarm=alarm,
        )
        self.defer(
            trigger=trigger,
            method_name="resume",
            kwargs={"deadline": deadline, "hold_seconds": hold, "so_far": asdict(counts), "alarm": alarm},
            timeout=timedelta(seconds=timeout),
        )

    def _poll(self, context: Context, lease: HeldLease | None = None) -> Any:
        """
        Process the lease of a trigger, then further messages; None if the sensor has to wait.

        A transient error of a lease request counts as an empty inbox.
        """
        if lease is not None and lease.seconds_left() <= 0:
            log.info("Inbox %s: a lease ended before the task resumed; leasing again", self._inbox_name)
            # Expired by this clock; by the service's clock it may still hold its messages.
            lease.release(self.hook, lease.message_ids)
            lease = None
        paused_before, self._paused = self._paused, None
        try:
            self._worker = self._new_worker(context)
        except (ValueError, SourceError):
            # A template may have another value than before the deferral, and an option may be invalid.
            if lease is not None:
                lease.release(self.hook, lease.message_ids)
            raise
        try:
            process: Any = self._receive if self.trigger_dag_id is None else self._dispatch
            value = process(self._worker, lease)
        except SourceError as error:
            if error.problem.kind != PAUSED:
                raise
            self._health.succeeded()  # the service has answered
            self._paused = error.problem
            if self._paused != paused_before:
                log.warning("%s", error)
            done = self.counts.handled > 0 and self.trigger_dag_id is not None
            value = self.counts.result if done else None
        # Received messages are returned first, or a rejected one would hold up the others.
        at_the_end = value is None if self.trigger_dag_id is None else value is not None
        if self.counts.causes and self.on_rejected == "fail" and at_the_end:
            raise AirflowFailException(self.counts.rejected_text())
        return value

    def _new_worker(self, context: Context) -> Dispatcher | Receiver:
        """
        What works on the messages of this poll: it starts their runs, or returns them.

        :raises ValueError: a rendered expression is invalid.
        """
        from airflow_provider_workflow.dispatch.payload_store import PayloadStore
        from airflow_provider_workflow.dispatch.receiving import Receiver
        from airflow_provider_workflow.dispatch.routing import Routes

        if self.trigger_dag_id is None:
            routes = Routes(None, self.match)
            store = PayloadStore.configured()
            return Receiver(self.hook, self.inbox, routes, context, self.counts, self._task, store)
        return self._new_dispatcher(
            context, self._failed_polls, counts=self.counts, reports_quarantine=not self.deferrable
        )

    def _dispatch(self, dispatcher: Dispatcher, lease: HeldLease | None) -> DispatchResult | None:
        from airflow_provider_workflow.dispatch.results import DrainEnd

        drained = dispatcher.drain(lease)
        if dispatcher.unreachable is not None:
            self._unreachable(dispatcher.unreachable)
        else:
            self._health.succeeded()
        # In the mode reschedule the counters would be lost with the process.
        continues = self.deferrable or not self.reschedule
        unfinished = drained in (DrainEnd.NO_CAPACITY, DrainEnd.UNREACHABLE)
        if self.counts.handled == 0 or (unfinished and continues):
            return None
        return self.counts.result

    def _receive(self, receiver: Receiver, lease: HeldLease | None) -> Any:
        auto = self.acknowledge == "auto"
        if auto and lease is None and (stored := receiver.stored()) is not None:
            return stored
        if lease is None and receiver.store is not None:
            receiver.store.check()
        lease = lease or self._lease(receiver.context["ti"].try_number)
        if lease is None:
            return None
        return (receiver.take(lease) if auto else receiver.lend(lease)) or None

    def _lease(self, attempt: int) -> HeldLease | None:
        from airflow_provider_workflow.client.errors import WorkflowError
        from airflow_provider_workflow.dispatch.lease import has_redelivered, lease_once

        try:
            inbox_id = self.hook.inbox_id(self.inbox)
            count = self.limits.of_returned(attempt)
            if count > 1 and not self._has_leased and has_redelivered(self.hook, inbox_id):
                count = 1
            lease = lease_once(self.hook, inbox_id, count, self.limits.lease_seconds, margin=0)
            self._has_leased = True
        except SourceError:
            self._report_quarantined(inbox_id)
            raise
        except WorkflowError as error:
            if not error.transient:
                raise
            self._unreachable(error)
            return None
        if lease is None:
            self._report_quarantined(inbox_id)
        self._health.succeeded()
        return lease

    def _report_quarantined(self, inbox_id: str) -> None:
        """Report quarantined messages; while the sensor is deferred, its trigger does."""
        from airflow_provider_workflow.dispatch.quarantine import check_quarantine

        if not self.deferrable:
            check_quarantine(self.hook, inbox_id)

    @cached_property
    def _health(self) -> InboxHealth:
        from airflow_provider_workflow.triggers.polling import InboxHealth

        return InboxHealth(self.inbox, self.workflow_conn_id, log)
