"""
Leases and acknowledges while DAG runs are started, and goes on where an acknowledgement fails.

Starting the runs of a lease takes about a second; the time that the service takes to answer passes meanwhile.
A run needs no acknowledgement: where one fails it is kept, and sent again for as long as its lease lasts.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.errors import (
    InboxPausedError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.inboxes import DELETING
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.session import acknowledge, lease_once, try_to_release, while_missing

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook


log = logging.getLogger(__name__)

LAST_LEASE_SECONDS = 5.0
"""How long a task that is being ended waits for a lease that it has asked for, to release it."""


@dataclass
class FailedAcknowledgement:
    """
    An acknowledgement that was not accepted yet.

    :param lease: the lease; once it has ended its messages are redelivered, and their runs are found.
    :param ids: the messages.
    :param error: how the last attempt failed.
    """

    lease: HeldLease
    ids: list[str]
    error: WorkflowError

    @property
    def is_transient(self) -> bool:
        """Whether the same call may be accepted later."""
        if isinstance(self.error, TransportError):
            return not self.error.permanent
        return isinstance(self.error, (ServerError, RateLimitError))


@dataclass
class Conveyor:
    """
    Brings leases of one inbox, and takes their acknowledgements away; a context, which ends both.

    Never more than two leases are held: the one that is worked on, and the next. The service is asked for
    one thing at a time, as a client is not shared between threads.

    :param hook: talks to the service.
    :param inbox: id or name.
    :param alongside: whether the service may be called from a thread; without it nothing is leased ahead,
        and acknowledgements are waited for.
    :param inbox_id: where to lease; looked up where it is not known, or gone.
    """

    hook: WorkflowHook
    inbox: str
    alongside: bool
    inbox_id: str = ""
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "workflow"))
    _next: Future[HeldLease | None] | None = None
    _next_size: tuple[int, int] = (0, 0)
    _acknowledging: Future[None] | None = None
    _failed: list[FailedAcknowledgement] = field(default_factory=list)
    _expired: list[FailedAcknowledgement] = field(default_factory=list)
    _hurries: bool = False

    def __enter__(self) -> Conveyor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._wait_for_thread()
            self._release_next()
            if kind is None and self._acknowledging is not None:
                self._acknowledging.result()
            errors = [each.error for each in (*self._expired, *self._failed)]
            # A paused inbox fails no task that has done something; an acknowledgement that failed does.
            raised = (
                errors.pop(0) if errors and (kind is None or issubclass(kind, InboxPausedError)) else None
            )
            for error in errors:
                log.warning("Inbox %s: an acknowledgement failed as well: %s", self.inbox, error)
            if raised is not None:
                raise raised
        finally:
            self._thread.shutdown(wait=not self._hurries, cancel_futures=True)
            if self._hurries:
                self.hook.close()

    # Leasing

    @property
    def has_next(self) -> bool:
        """Whether a lease was asked for ahead."""
        return self._next is not None

    def lease_ahead(self, count: int, seconds: int) -> None:
        """
        Ask for the next lease, while there is work on the one before.

        :param count: messages at most, 1 to 100.
        :param seconds: length of the lease, 1 to 3600 s.
        """
        if self.alongside and self._next is None:
            # What has to wait is asked for later: the acknowledgement of the lease before goes first.
            self._next = self._thread.submit(self._lease, count, seconds, patient=False)
            self._next_size = count, seconds

    def lease(self, count: int, seconds: int) -> HeldLease | None:
        """
        The lease that was asked for ahead, or one that is asked for now; None where nothing is there.

        :param count: messages at most, 1 to 100; of one that was asked for ahead it is known.
        :param seconds: length of the lease, 1 to 3600 s; the same.
        :raises NotFoundError: there is no such inbox, and none was created under its name within 30 s.
        :raises WorkflowError: the service cannot be used; see ``lease_once``.
        """
        if self._next is None:
            self._wait_for_thread()
            return while_missing(self.inbox, lambda: self._lease(count, seconds))
        try:
            lease = self._next.result()
        except (NotFoundError, RateLimitError, TransportError) as error:
            if isinstance(error, TransportError) and error.sent:
                raise
            self._next = None
            return self.lease(*self._next_size)
        self._next = None
        return lease

    def _lease(self, count: int, seconds: int, *, patient: bool = True) -> HeldLease | None:
        self.inbox_id = inbox_id = self.inbox_id or self.hook.get_inbox(self.inbox)["id"]
        try:
            lease = lease_once(self.hook, inbox_id, count, seconds, self.inbox, patient=patient)
        except NotFoundError:
            # Another one may have its name by now.
            self.inbox_id = ""
            raise
        return lease and replace(lease, inbox_id=inbox_id)

    # Acknowledging

    def acknowledge(self, lease: HeldLease, ids: list[str]) -> None:
        """
        Acknowledge messages of a lease; not waited for where the next lease is on its way.

        An acknowledgement that fails raises nothing here: it is kept (see ``unacknowledged``).
        """
        if not ids:
            return
        if not self.alongside:
            self._acknowledge(lease, ids)
            return
        before, self._acknowledging = self._acknowledging, self._thread.submit(self._acknowledge, lease, ids)
        if before is not None:
            before.result()
        if self._next is None:
            self._acknowledging.result()

    @property
    def unacknowledged(self) -> int:
        """Leases under way whose acknowledgement failed and is to be sent again."""
        for each in [each for each in self._failed if each.lease.ends_at <= clock.now()]:
            self._failed.remove(each)
            self._expired.append(each)
        return len({each.lease.lease_id for each in self._failed})

    @property
    def is_rejected(self) -> bool:
        """Whether an acknowledgement failed for good: leasing more would only spend deliveries."""
        return any(not each.is_transient for each in self._failed)

    def acknowledge_again(self) -> None:
        """Send what failed once more: one attempt each."""
        self._wait_for_thread()
        failed, self._failed = self._failed, []
        once = self.hook.hurried()
        try:
            for each in failed:
                self._acknowledge(each.lease, each.ids, once)
        finally:
            once.close()

    def _acknowledge(self, lease: HeldLease, ids: list[str], hook: WorkflowHook | None = None) -> None:
        hook = hook or self.hook
        try:
            acknowledge(hook, lease.inbox_id, lease.lease_id, ids, self.inbox)
        except WorkflowError as error:
            if isinstance(error, NotFoundError) and _is_gone(hook, lease.inbox_id):
                log.warning(
                    "Inbox %s was deleted before %d of its messages were acknowledged. Their runs exist, and"
                    " a deleted inbox redelivers nothing",
                    self.inbox,
                    len(ids),
                )
            else:
                self._failed.append(FailedAcknowledgement(lease, ids, error))

    # Ending

    def release(self, lease: HeldLease, ids: list[str]) -> None:
        """Release messages at once; where that fails their lease expires instead."""
        self._wait_for_thread()
        try_to_release(self.hook, lease.inbox_id, lease.lease_id, ids, self.inbox)

    def hurry(self) -> None:
        """From now on send each call once, for a few seconds at most, as the task is being ended."""
        # A client of its own: the thread may be in the middle of a call with the other.
        self.hook, self.alongside, self._hurries = self.hook.hurried(), False, True

    def _wait_for_thread(self) -> None:
        """Wait until the thread does not use the hook any more: a client is not for two threads."""
        under_way: list[Future[Any]] = [
            each for each in (self._next, self._acknowledging) if each is not None
        ]
        wait(under_way, LAST_LEASE_SECONDS if self._hurries else None)

    def _release_next(self) -> None:
        if self._next is None or not self._next.done() or self._next.exception() is not None:
            return
        lease = self._next.result()
        if lease is not None:
            ids = [message["id"] for message in lease.messages]
            try_to_release(self.hook, lease.inbox_id, lease.lease_id, ids, self.inbox)


def _is_gone(hook: WorkflowHook, inbox_id: str) -> bool:
    """Whether an inbox was deleted, so that an acknowledgement fails for that and for nothing else."""
    try:
        return hook.get_inbox(inbox_id)["status"] == DELETING
    except WorkflowError as error:
        return isinstance(error, NotFoundError)
