"""The polls of the inbox sensor in one process: each leases messages, and dispatches or returns them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from airflow_provider_workflow import metrics, tracing
from airflow_provider_workflow.client.errors import InboxPausedError, WorkflowError
from airflow_provider_workflow.client.inboxes import FAILED, PAUSED
from airflow_provider_workflow.client.settings import host_of
from airflow_provider_workflow.config import traces
from airflow_provider_workflow.dispatch.dead_letters import DeadLetterRules
from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
from airflow_provider_workflow.dispatch.lease import (
    HeldLease,
    InboxNotActiveError,
    InboxUnusableError,
    lease_once,
    log_paused,
    try_to_release,
)
from airflow_provider_workflow.dispatch.receiving import Receiver
from airflow_provider_workflow.dispatch.rejections import TargetError
from airflow_provider_workflow.dispatch.results import Counts, DispatchResult, Drained
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.runs import TaskRuns, attempt_of, origin_of
from airflow_provider_workflow.dispatch.targets import Limits
from airflow_provider_workflow.triggers.polling import Faults

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """
    Arguments of the sensor, rendered.

    :param continues: whether a sensor without capacity, or after a transient error, waits and continues with
        its counters; otherwise it ends.
    :param dead_letter_rules: when messages become dead letters; None if they never do.
    """

    inbox: str
    trigger_dag_id: str | Mapping[str, str] | None
    match: str | None
    acknowledge: str | None
    on_refused: str
    on_paused: str
    limits: Limits
    continues: bool
    dead_letter_rules: DeadLetterRules | None = None


@dataclass
class Work:
    """
    The polls of one process; they share the hook and the counters.

    :param counts: the counters, which continue from earlier polls.
    """

    hook: WorkflowHook
    options: Options
    counts: Counts = field(default_factory=Counts)
    _failed_polls: int = 0
    _worker: Dispatcher | Receiver | None = None
    _waiting_noted: bool = False

    def poll(self, context: Context, lease: HeldLease | None = None) -> Any:
        """
        Process a lease, then further messages.

        A transient error of a lease request counts as an empty inbox; an error of a lease that is held, such
        as a failing acknowledgement, is raised.

        :param lease: the lease of a trigger.
        :return: the return value of the sensor; None if it has to wait.
        """
        try:
            return self._poll(context, lease)
        except TargetError:
            # With silent_fail the sensor polls again in this process.
            self._failed_polls += 1
            raise

    def _poll(self, context: Context, lease: HeldLease | None) -> Any:
        inbox = self.options.inbox
        if lease is not None and lease.seconds_left() <= 0:
            log.info("Inbox %s: a lease ended before the task resumed; leasing again", inbox)
            # Expired by this clock; by the service's clock it may still hold its messages.
            self._release_all(lease)
            lease = None
        receives = self.options.trigger_dag_id is None
        worker = self._worker = self._get_ready(context, lease)
        value: Any
        try:
            if isinstance(worker, Receiver):
                value = self._receive(worker, lease)
            else:
                value = self._dispatch(worker, lease)
        except InboxPausedError as paused:
            value = self._paused(paused.paused_reason, receives)
        # Received messages are returned first, or a rejected one would hold up the others.
        at_the_end = value is None if receives else value is not None
        if self.counts.failing and self.options.on_refused == "fail" and at_the_end:
            raise AirflowFailException(self.counts.rejected_text())
        return value

    def next_lease(self) -> tuple[int, int]:
        """
        Limit and seconds of the trigger's next lease, after a poll; the limit is 0 if it may only wait.
        """
        limits = self.options.limits
        if not isinstance(self._worker, Dispatcher):
            return limits.first_lease, limits.lease_seconds
        # After started runs the sensor only waits for capacity, and ends when the inbox is empty.
        return (0, limits.lease_seconds) if self.counts.handled else self._worker.next_lease()

    @property
    def is_working(self) -> bool:
        """Whether leased messages are being processed now."""
        return self._worker is not None and self._worker.working

    def log_waiting(self, poll_interval: float) -> None:
        """Log, once, that the sensor waits on its worker."""
        if not self._waiting_noted:
            self._waiting_noted = True
            log.info(
                "Inbox %s at %s: nothing to do yet; polling every %g s",
                self.options.inbox,
                host_of(self.hook.settings.base_url),
                poll_interval,
            )

    def _get_ready(self, context: Context, lease: HeldLease | None) -> Dispatcher | Receiver:
        """Check, before messages are leased, that they can be processed."""
        try:
            if self.options.trigger_dag_id is None:
                return Receiver(self.hook, self.options.inbox, self._routes, context, self.counts)
            dispatcher = self._new_dispatcher(context)
            dispatcher.check_targets(lease)
        except Exception:
            if lease is not None:
                # One message stays leased: if it were released, the next try would lease it at once, and
                # fail again with the same target or expression.
                rest = [message["id"] for message in lease.messages if message["id"] not in self.counts.seen]
                self._release_or_hurry(lease, [*rest, *lease.left][1:])
            raise
        except BaseException:
            # The task is being ended: nothing was tried.
            if lease is not None:
                self._release_at_once(lease)
            raise
        return dispatcher

    def _new_dispatcher(self, context: Context) -> Dispatcher:
        return Dispatcher(
            self.hook,
            self.options.inbox,
            self._routes,
            TaskRuns(context["ti"]),
            self.options.limits,
            self.counts,
            attempt=attempt_of(context) + self._failed_polls,
            is_transient_error=self._is_transient,
            origin=origin_of(context),
            dead_letter_rules=self.options.dead_letter_rules,
        )

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self.options.trigger_dag_id, self.options.match)

    @cached_property
    def _faults(self) -> Faults:
        """Consecutive errors of lease requests, which are logged once per series."""
        return Faults(self.options.inbox, log)

    def _paused(self, reason: str, receives: bool) -> DispatchResult | None:
        done = self.counts.handled > 0 and not receives
        if self.options.on_paused == "fail" and not done:
            raise InboxNotActiveError(self.options.inbox, reason) from None
        log_paused(self.hook, self.options.inbox, reason)
        return self.counts.result if done else None

    def _dispatch(self, dispatcher: Dispatcher, lease: HeldLease | None) -> DispatchResult | None:
        if lease is not None:
            self._release_left(lease)
        drained = dispatcher.drain(lease)
        if drained is Drained.EMPTY:
            self._faults.over()
        unfinished = drained in (Drained.NO_CAPACITY, Drained.UNREACHABLE)
        if self.counts.handled == 0 or (unfinished and self.options.continues):
            return None
        return self.counts.result

    def _receive(self, receiver: Receiver, lease: HeldLease | None) -> Any:
        auto = self.options.acknowledge == "auto"
        if auto and (stored := receiver.stored()) is not None:
            if lease is not None:
                self._release_all(lease)
            return stored
        if lease is not None:
            self._release_left(lease)
        if lease is None or (lease.left and not lease.messages):
            # Also where no message fitted into the hand-off: the next trigger's would be the same.
            lease = self._lease()
        if lease is None:
            return None
        return (receiver.take(lease) if auto else receiver.lend(lease)) or None

    def _lease(self) -> HeldLease | None:
        inbox, limits = self.options.inbox, self.options.limits
        try:
            lease = lease_once(self.hook, inbox, limits.first_lease, limits.lease_seconds)
        except WorkflowError as error:
            if not self._is_transient(error):
                raise
            return None
        self._faults.over()
        return lease

    def _is_transient(self, error: WorkflowError) -> bool:
        if error.transient:
            self._faults.met(error)
            return True
        return False

    def _release_all(self, lease: HeldLease) -> None:
        self._release(lease, [*(message["id"] for message in lease.messages), *lease.left])

    def _release_at_once(self, lease: HeldLease) -> None:
        with closing(self.hook.hurried()) as self.hook:
            self._release_all(lease)

    def _release_left(self, lease: HeldLease) -> None:
        if lease.left:
            log.warning(
                "Inbox %s: %d messages of a lease did not fit into the hand-off; releasing them",
                self.options.inbox,
                len(lease.left),
            )
            self._release_or_hurry(lease, lease.left)

    def _release_or_hurry(self, lease: HeldLease, ids: list[str]) -> None:
        """Release messages of a lease of which none was tried; all of it if the task ends meanwhile."""
        try:
            self._release(lease, ids)
        except BaseException:
            self._release_at_once(lease)
            raise

    def _release(self, lease: HeldLease, ids: list[str]) -> None:
        inbox = self.options.inbox
        try_to_release(self.hook, lease.inbox_id or inbox, lease.lease_id, ids, inbox)


@contextmanager
def skip_on_failure(*, soft_fail: bool, never_fail: bool) -> Iterator[None]:
    """Apply ``soft_fail`` and ``never_fail`` as the mode poke does, for a deferrable sensor."""
    try:
        yield
    except AirflowSkipException:
        raise
    except Exception as error:
        final = isinstance(error, (AirflowSensorTimeout, AirflowFailException))
        if never_fail or (soft_fail and final):
            raise AirflowSkipException(f"Skipped instead of failing: {error}") from error
        raise


def lease_of(inbox: str, event: dict[str, Any]) -> HeldLease | None:
    """
    The lease in an event of a ``WorkflowInboxTrigger``; None if the event only asks for a poll.

    :param inbox: name of the inbox in errors.
    :raises InboxNotActiveError: the inbox is paused and has no more messages.
    :raises InboxUnusableError: the inbox failed to initialize.
    :raises AirflowException: the event is not one of the trigger's.
    """
    status = event.get("status")
    if status == "leased":
        inbox_id, name = event.get("inbox_id") or "", event.get("inbox_name")
        if inbox_id and name:
            # For the tags of metrics: this process has not looked up the name.
            metrics.remember_name(inbox_id, name)
        lease = HeldLease.from_hand_off(event["lease"])
        if "trace" in event and traces():
            tracing.take_over(lease.lease_id, [each["id"] for each in lease.messages], event["trace"])
        return replace(lease, inbox_id=inbox_id)
    if status == "poll":
        return None
    if status == PAUSED:
        raise InboxNotActiveError(inbox, event.get("reason"))
    if status == FAILED:
        raise InboxUnusableError(inbox, event.get("reason"))
    raise AirflowException(f"The trigger sent an unknown event: {status!r}")
