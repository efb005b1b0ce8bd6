"""What a sensor does each time it looks at its inbox: dispatch what is there, or receive it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_workflow.client.errors import InboxPausedError, WorkflowError
from airflow_provider_workflow.dispatch.capacity import Limits
from airflow_provider_workflow.dispatch.dispatcher import Dispatcher, Drained
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.receiving import Receiver
from airflow_provider_workflow.dispatch.results import DispatchResult, Tally
from airflow_provider_workflow.dispatch.routing import Routes
from airflow_provider_workflow.dispatch.runs import TaskRuns, origin_of
from airflow_provider_workflow.dispatch.session import (
    InboxNotActiveError,
    lease_once,
    note_paused,
    try_to_release,
    while_missing,
)
from airflow_provider_workflow.dispatch.target_check import TargetCheck, TargetHistory
from airflow_provider_workflow.triggers.retrying import Faults, may_pass

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_workflow.hooks.workflow import WorkflowHook

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Orders:
    """
    What a sensor was told to do; its arguments, rendered.

    :param goes_on: whether a sensor that has no more room, or cannot lease for now, goes on later with
        what it has done; otherwise it ends with that.
    """

    inbox: str
    trigger_dag_id: str | Mapping[str, str] | None
    match: str | None
    acknowledge: str | None
    on_refused: str
    on_paused: str
    limits: Limits
    goes_on: bool


@dataclass
class Checks:
    """What one process found out, for all of its polls."""

    targets: TargetCheck | None = None


@dataclass
class Work:
    """
    One look at an inbox, and the wait that may follow it.

    :param hook: talks to the service.
    :param orders: what to do.
    :param context: of the running task.
    :param tally: what was done so far; goes on counting.
    :param faults: those that leasing met in a row; goes on counting.
    :param checks: what this process found out about its targets; goes on being filled.
    """

    hook: WorkflowHook
    orders: Orders
    context: Context
    tally: Tally
    faults: Faults
    checks: Checks = field(default_factory=Checks)

    def look(self, lease: HeldLease | None = None) -> Any:
        """
        Work on a lease, then on what else is there.

        A fault of leasing that may pass means that nothing is there yet; one of a lease that is held, such
        as a failing acknowledgement, is raised.

        :param lease: from a trigger.
        :return: what the sensor returns; None where it has to wait.
        """
        inbox = self.orders.inbox
        if lease is not None and lease.seconds_left() <= 0:
            log.info("Inbox %s: a lease ended before the task resumed; leasing again", inbox)
            # By this clock. By the service's own it may have time left, and then nobody else gets it.
            self._release_all(lease)
            lease = None
        self._get_ready(lease)
        try:
            value = self._receive(lease) if self._receiving else self._dispatch(lease)
        except InboxPausedError as paused:
            value = self._paused(paused.paused_reason)
        # Messages that were received have to reach the DAG, or a bad one would stop the good ones.
        at_the_end = value is None if self._receiving else value is not None
        if self.tally.refused and self.orders.on_refused == "fail" and at_the_end:
            raise AirflowFailException(self.tally.refused_text())
        return value

    def next_lease(self) -> tuple[int, int]:
        """How many messages a trigger may lease now, 0 where it may only wait, and for how many seconds."""
        limits = self.orders.limits
        if self._receiving:
            return limits.first_lease, limits.lease_seconds
        # With runs started already the sensor only waits for room, and ends once the inbox is empty.
        return (0, limits.lease_seconds) if self.tally.handled else self._dispatcher.next_lease()

    @property
    def is_working(self) -> bool:
        """Whether leased messages are being worked on at this moment."""
        workers = (vars(self).get("_dispatcher"), vars(self).get("_receiver"))
        return any(worker is not None and worker.working for worker in workers)

    @property
    def _receiving(self) -> bool:
        return self.orders.trigger_dag_id is None

    def _paused(self, reason: str) -> DispatchResult | None:
        done = self.tally.handled > 0 and not self._receiving
        if self.orders.on_paused == "fail" and not done:
            raise InboxNotActiveError(self.orders.inbox, reason) from None
        note_paused(self.hook, self.orders.inbox, reason)
        return self.tally.result if done else None

    def _get_ready(self, lease: HeldLease | None) -> None:
        """Find out, before anything is leased, whether there is a use for messages."""
        try:
            if self._routes.dag_ids:
                self._dispatcher.check_targets()
        except Exception:
            if lease is not None:
                # One message stays leased: released, it would be leased again by the next try, which costs a
                # delivery. An expression that is wrong once rendered fails every try as well.
                self._release(lease, [*(message["id"] for message in lease.messages[1:]), *lease.left])
            raise

    def _dispatch(self, lease: HeldLease | None) -> DispatchResult | None:
        if lease is not None:
            self._release_left(lease)
        drained = self._dispatcher.drain(lease)
        if drained is Drained.EMPTY:
            self.faults.over()
        unfinished = drained in (Drained.NO_ROOM, Drained.OUT_OF_REACH)
        if self.tally.handled == 0 or (unfinished and self.orders.goes_on):
            return None
        return self.tally.result

    def _receive(self, lease: HeldLease | None) -> Any:
        auto = self.orders.acknowledge == "auto"
        if auto and (stored := self._receiver.stored()) is not None:
            if lease is not None:
                self._release_all(lease)
            return stored
        if lease is None:
            lease = self._lease()
        else:
            self._release_left(lease)
        if lease is None:
            return None
        return (self._receiver.take(lease) if auto else self._receiver.lend(lease)) or None

    def _lease(self) -> HeldLease | None:
        inbox, limits = self.orders.inbox, self.orders.limits
        try:
            lease = while_missing(
                inbox, lambda: lease_once(self.hook, inbox, limits.first_lease, limits.lease_seconds)
            )
        except WorkflowError as error:
            if not self._outlasts(error):
                raise
            return None
        self.faults.over()
        return lease

    def _outlasts(self, error: WorkflowError) -> bool:
        if may_pass(error):
            self.faults.met(error)
            return True
        return False

    def _release_all(self, lease: HeldLease) -> None:
        self._release(lease, [*(message["id"] for message in lease.messages), *lease.left])

    def _release_left(self, lease: HeldLease) -> None:
        if lease.left:
            log.warning(
                "Inbox %s: %d messages of a lease were too much to hand over; releasing them",
                self.orders.inbox,
                len(lease.left),
            )
            self._release(lease, lease.left)

    def _release(self, lease: HeldLease, ids: list[str]) -> None:
        inbox = self.orders.inbox
        try_to_release(self.hook, lease.inbox_id or inbox, lease.lease_id, ids, inbox)

    @cached_property
    def _dispatcher(self) -> Dispatcher:
        return Dispatcher(
            self.hook,
            self.orders.inbox,
            self._routes,
            self._targets,
            self.orders.limits,
            self.tally,
            outlasts=self._outlasts,
            origin=origin_of(self.context),
        )

    @property
    def _targets(self) -> TargetCheck:
        if self.checks.targets is None:
            runs = TaskRuns(self.context["ti"])
            self.checks.targets = TargetCheck(runs, self._routes.dag_ids, TargetHistory(self.context))
        return self.checks.targets

    @cached_property
    def _receiver(self) -> Receiver:
        return Receiver(self.hook, self.orders.inbox, self._routes, self.context, self.tally)

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self.orders.trigger_dag_id, self.orders.match)
