"""What the inbox sensor does in one process: it polls, then dispatches or receives what is there."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from airflow_provider_workflow import metrics
from airflow_provider_workflow.client.errors import InboxPausedError, WorkflowError
from airflow_provider_workflow.client.inboxes import FAILED, PAUSED
from airflow_provider_workflow.client.settings import host_of
from airflow_provider_workflow.dispatch.dispatcher import Dispatcher, Drained
from airflow_provider_workflow.dispatch.lease import (
    HeldLease,
    InboxNotActiveError,
    InboxUnusableError,
    lease_once,
    note_paused,
    try_to_release,
)
from airflow_provider_workflow.dispatch.receiving import Receiver
from airflow_provider_workflow.dispatch.results import DispatchResult, Tally
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.runs import TaskRuns, origin_of
from airflow_provider_workflow.dispatch.session import while_missing
from airflow_provider_workflow.dispatch.targets import Limits, TargetCheck, TargetHistory
from airflow_provider_workflow.triggers.retrying import Faults, may_pass

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """
    Arguments of the sensor, rendered.

    :param continues: whether a sensor that has no more capacity, or cannot lease for now, continues later
        with what it has counted; otherwise it ends with that.
    """

    inbox: str
    trigger_dag_id: str | Mapping[str, str] | None
    match: str | None
    acknowledge: str | None
    on_refused: str
    on_paused: str
    limits: Limits
    continues: bool


@dataclass
class Work:
    """
    The polls of one process: they share a connection, the count, and what is known of the targets.

    :param hook: talks to the service.
    :param options: what to do with messages.
    :param tally: what was done so far; goes on counting.
    """

    hook: WorkflowHook
    options: Options
    tally: Tally = field(default_factory=Tally)
    _targets: TargetCheck | None = None
    _worker: Dispatcher | Receiver | None = None
    _waiting_noted: bool = False

    def poll(self, context: Context, lease: HeldLease | None = None) -> Any:
        """
        Work on a lease, then on what else is there.

        A transient error of leasing means that nothing is there yet; one of a lease that is held, such as a
        failing acknowledgement, is raised.

        :param lease: from a trigger.
        :return: what the sensor returns; None where it has to wait.
        """
        inbox = self.options.inbox
        if lease is not None and lease.seconds_left() <= 0:
            log.info("Inbox %s: a lease ended before the task resumed; leasing again", inbox)
            # By this clock. By the service's own it may have time left, and then nobody else gets it.
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
        # Messages that were received have to reach the DAG, or a bad one would stop the good ones.
        at_the_end = value is None if receives else value is not None
        if self.tally.refused and self.options.on_refused == "fail" and at_the_end:
            raise AirflowFailException(self.tally.refused_text())
        return value

    def next_lease(self) -> tuple[int, int]:
        """
        After a poll: how many messages a trigger may lease now, 0 where it may only wait, and for how many
        seconds.
        """
        limits = self.options.limits
        if not isinstance(self._worker, Dispatcher):
            return limits.first_lease, limits.lease_seconds
        # With runs started already the sensor only waits for capacity, and ends once the inbox is empty.
        return (0, limits.lease_seconds) if self.tally.handled else self._worker.next_lease()

    @property
    def is_working(self) -> bool:
        """Whether leased messages are being worked on at this moment."""
        return self._worker is not None and self._worker.working

    def note_waiting(self, poll_interval: float) -> None:
        """Say, once, that the sensor waits on its worker."""
        if not self._waiting_noted:
            self._waiting_noted = True
            log.info(
                "Inbox %s at %s: nothing to do yet; polling every %g s",
                self.options.inbox,
                host_of(self.hook.settings.base_url),
                poll_interval,
            )

    def _get_ready(self, context: Context, lease: HeldLease | None) -> Dispatcher | Receiver:
        """Find out, before anything is leased, whether there is a use for messages."""
        try:
            if self.options.trigger_dag_id is None:
                return Receiver(self.hook, self.options.inbox, self._routes, context, self.tally)
            dispatcher = self._new_dispatcher(context)
            dispatcher.check_targets()
        except Exception:
            if lease is not None:
                # One message stays leased: released, it would be leased again by the next try, which costs a
                # delivery. An expression that is wrong once rendered fails every try as well.
                self._release(lease, [*(message["id"] for message in lease.messages[1:]), *lease.left])
            raise
        return dispatcher

    def _new_dispatcher(self, context: Context) -> Dispatcher:
        if self._targets is None:
            runs = TaskRuns(context["ti"])
            self._targets = TargetCheck(runs, self._routes.dag_ids, TargetHistory(context))
        return Dispatcher(
            self.hook,
            self.options.inbox,
            self._routes,
            self._targets,
            self.options.limits,
            self.tally,
            outlasts=self._outlasts,
            origin=origin_of(context),
        )

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self.options.trigger_dag_id, self.options.match)

    @cached_property
    def _faults(self) -> Faults:
        """Those that leasing meets in a row, so that a series of them is logged once."""
        return Faults(self.options.inbox, log)

    def _paused(self, reason: str, receives: bool) -> DispatchResult | None:
        done = self.tally.handled > 0 and not receives
        if self.options.on_paused == "fail" and not done:
            raise InboxNotActiveError(self.options.inbox, reason) from None
        note_paused(self.hook, self.options.inbox, reason)
        return self.tally.result if done else None

    def _dispatch(self, dispatcher: Dispatcher, lease: HeldLease | None) -> DispatchResult | None:
        if lease is not None:
            self._release_left(lease)
        drained = dispatcher.drain(lease)
        if drained is Drained.EMPTY:
            self._faults.over()
        unfinished = drained in (Drained.NO_ROOM, Drained.OUT_OF_REACH)
        if self.tally.handled == 0 or (unfinished and self.options.continues):
            return None
        return self.tally.result

    def _receive(self, receiver: Receiver, lease: HeldLease | None) -> Any:
        auto = self.options.acknowledge == "auto"
        if auto and (stored := receiver.stored()) is not None:
            if lease is not None:
                self._release_all(lease)
            return stored
        if lease is None:
            lease = self._lease()
        else:
            self._release_left(lease)
        if lease is None:
            return None
        return (receiver.take(lease) if auto else receiver.lend(lease)) or None

    def _lease(self) -> HeldLease | None:
        inbox, limits = self.options.inbox, self.options.limits
        try:
            lease = while_missing(
                inbox, lambda: lease_once(self.hook, inbox, limits.first_lease, limits.lease_seconds)
            )
        except WorkflowError as error:
            if not self._outlasts(error):
                raise
            return None
        self._faults.over()
        return lease

    def _outlasts(self, error: WorkflowError) -> bool:
        if may_pass(error):
            self._faults.met(error)
            return True
        return False

    def _release_all(self, lease: HeldLease) -> None:
        self._release(lease, [*(message["id"] for message in lease.messages), *lease.left])

    def _release_left(self, lease: HeldLease) -> None:
        if lease.left:
            log.warning(
                "Inbox %s: %d messages of a lease did not fit into the hand-off; releasing them",
                self.options.inbox,
                len(lease.left),
            )
            self._release(lease, lease.left)

    def _release(self, lease: HeldLease, ids: list[str]) -> None:
        inbox = self.options.inbox
        try_to_release(self.hook, lease.inbox_id or inbox, lease.lease_id, ids, inbox)


@contextmanager
def skipping_instead(*, soft_fail: bool, never_fail: bool) -> Iterator[None]:
    """What poke mode does for ``soft_fail`` and ``never_fail``, for code that poke mode does not call."""
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
    The lease in an event of a ``WorkflowInboxTrigger``; None where that only says that it is time to poll.

    :param inbox: how the inbox is named in an error.
    :raises InboxNotActiveError: the inbox is paused and has no more messages.
    :raises InboxUnusableError: the inbox failed to initialise.
    :raises AirflowException: the event is not one of the trigger's.
    """
    status = event.get("status")
    if status == "leased":
        inbox_id, name = event.get("inbox_id") or "", event.get("inbox_name")
        if inbox_id and name:
            # This process has not looked the inbox up, and its metrics are to have the same name.
            metrics.remember_name(inbox_id, name)
        return replace(HeldLease.taken_over(event["lease"]), inbox_id=inbox_id)
    if status == "look":
        return None
    if status == PAUSED:
        raise InboxNotActiveError(inbox, event.get("reason"))
    if status == FAILED:
        raise InboxUnusableError(inbox, event.get("reason"))
    raise AirflowException(f"The trigger sent an event that is not known: {status!r}")
