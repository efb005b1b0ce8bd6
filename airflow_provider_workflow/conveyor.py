"""
Leases come and acknowledgements go while DAG runs are started.

Starting the runs of a lease takes about a second; what the service takes to answer passes meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow.client.errors import InboxPausedError, RateLimitError, TransportError
from airflow_provider_workflow.leases import HeldLease
from airflow_provider_workflow.leasing import acknowledge, lease_once, release

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook


log = logging.getLogger(__name__)


@dataclass
class Conveyor:
    """
    Brings leases of one inbox, and takes their acknowledgements away; a context, which ends both.

    Never more than two leases are held: the one that is worked on, and the next. The service is asked for
    one thing at a time, as a client is not shared between threads.

    :param hook: talks to the service.
    :param inbox_id: tells the id of the inbox; may ask the service for it.
    :param inbox: how the inbox is named in an error.
    :param lease_seconds: length of a lease, 1 to 3600 s.
    :param alongside: whether the service may be called from a thread; without it nothing is leased ahead,
        and acknowledgements are waited for.
    """

    hook: WorkflowHook
    inbox_id: Callable[[], str]
    inbox: str
    lease_seconds: int
    alongside: bool
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "workflow"))
    _next: Future[HeldLease | None] | None = None
    _next_count: int = 0
    _acknowledged: Future[int] | None = None

    def __enter__(self) -> Conveyor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            # A paused inbox fails no task that has done something; an acknowledgement that failed does.
            if kind is None or issubclass(kind, InboxPausedError):
                self._settle()
            else:
                self._give_back_next()
                self._note_last()
        finally:
            self._thread.shutdown()

    @property
    def has_next(self) -> bool:
        """Whether a lease was asked for ahead."""
        return self._next is not None

    def lease_ahead(self, count: int) -> None:
        """
        Ask for the next lease, while there is work on the one before.

        :param count: messages at most, 1 to 100.
        """
        if self.alongside and self._next is None:
            # What has to wait is asked for later: the acknowledgement of the lease before goes first.
            self._next = self._thread.submit(self._lease, count, patient=False)
            self._next_count = count

    def lease(self, count: int) -> HeldLease | None:
        """
        The lease that was asked for ahead, or one that is asked for now; None where nothing is there.

        :param count: messages at most, 1 to 100; of one that was asked for ahead it is known.
        :raises WorkflowError: the service cannot be used; see ``lease_once``.
        """
        if self._next is None:
            self._rest()
            return self._lease(count)
        try:
            lease = self._next.result()
        except (RateLimitError, TransportError) as error:
            if isinstance(error, TransportError) and error.sent:
                raise
            self._next = None
            return self.lease(self._next_count)
        self._next = None
        return lease

    def _lease(self, count: int, *, patient: bool = True) -> HeldLease | None:
        inbox_id, seconds = self.inbox_id(), self.lease_seconds
        return lease_once(self.hook, inbox_id, count, seconds, self.inbox, patient=patient)

    def acknowledge(self, lease: HeldLease, ids: list[str]) -> None:
        """
        Acknowledge messages of a lease; not waited for where the next lease is on its way.

        :raises WorkflowError: this acknowledgement failed, or the one before.
        """
        order = (self.hook, self.inbox_id(), lease.lease_id, ids)
        if not self.alongside:
            acknowledge(*order)
            return
        before, self._acknowledged = self._acknowledged, self._thread.submit(acknowledge, *order)
        if before is not None:
            before.result()
        if self._next is None:
            self._settle()

    def release(self, lease: HeldLease, ids: list[str]) -> None:
        """Give messages back at once; where that fails their lease runs out instead."""
        self._rest()
        release(self.hook, self.inbox_id(), lease.lease_id, ids)

    def _rest(self) -> None:
        """Wait until the thread uses the hook no more: one client is not for two threads."""
        under_way: list[Future[Any]] = [each for each in (self._next, self._acknowledged) if each is not None]
        wait(under_way)

    def _settle(self) -> None:
        """Wait for the last acknowledgement."""
        if self._acknowledged is not None:
            last, self._acknowledged = self._acknowledged, None
            last.result()

    def _note_last(self) -> None:
        """Say of the last acknowledgement that it failed, where something else is raised."""
        if self._acknowledged is not None and (fault := self._acknowledged.exception()) is not None:
            log.warning("Inbox %s: an acknowledgement failed as well: %s", self.inbox, fault)

    def _give_back_next(self) -> None:
        if self._next is None or self._next.exception() is not None:
            return
        lease = self._next.result()
        if lease is not None:
            self.release(lease, [message["id"] for message in lease.messages])
