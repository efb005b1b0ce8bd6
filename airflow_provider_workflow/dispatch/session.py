"""
The leases of one inbox while a task works on them.

A drain holds at most two leases: the one whose runs it is starting, and the next, which is requested while
the runs of the first are started: docs/decisions/leasing-ahead.md says what that gains. An acknowledgement
that fails stops nothing, as its runs exist: it is kept, and sent again for as long as its lease lasts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_workflow import clock, tracing
from airflow_provider_workflow.client.errors import (
    InboxPausedError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.inboxes import DELETING, is_id
from airflow_provider_workflow.config import traces
from airflow_provider_workflow.dispatch.lease import HeldLease, acknowledge, lease_once, try_to_release

if TYPE_CHECKING:
    from airflow_provider_workflow.hooks.workflow import WorkflowHook


log = logging.getLogger(__name__)

T = TypeVar("T")

MISSING_PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between the look-ups of an inbox that is not there: it may be created again under its name."""
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0
"""Pause between two attempts to send failed acknowledgements; it doubles from the first to the longest."""
LEASE_AHEAD_SECONDS = 0.5
"""Time before the last run of a lease at which the next lease is requested. It ages meanwhile, so this
is a small part of the shortest lease, and about the time in which most services answer."""
LAST_LEASE_SECONDS = 5.0
"""How long a task that is being ended waits for the answer to a lease request, to release that lease."""


class MissingInbox:
    """
    Counts the failed look-ups of an inbox, for 30 s in all: it may be created again under its name.

    :param inbox: id or name.
    """

    def __init__(self, inbox: str) -> None:
        self._inbox = inbox
        self._count = 0

    def pause(self, error: NotFoundError) -> float:
        """
        Seconds to wait before the next look-up by name.

        :raises NotFoundError: the inbox was given by its id, or the 30 s are over.
        """
        if is_id(self._inbox) or self._count == len(MISSING_PAUSES):
            raise error
        if self._count == 0:
            log.warning(
                "Inbox %s does not exist (any more); looking it up by its name for %.0f s",
                self._inbox,
                sum(MISSING_PAUSES),
            )
        self._count += 1
        return MISSING_PAUSES[self._count - 1]

    def found(self) -> None:
        """The inbox exists; if it is deleted again, the 30 s begin again."""
        self._count = 0


def while_missing(inbox: str, call: Callable[[], T]) -> T:
    """
    Make a call for an inbox; while the inbox does not exist, wait, for 30 s in all, and repeat it. For tasks.

    :param inbox: id or name; there is no wait for one that is given by its id.
    :param call: made each time; it looks the inbox up by its name.
    :raises NotFoundError: the inbox still does not exist.
    """
    missing = MissingInbox(inbox)
    while True:
        try:
            return call()
        except NotFoundError as error:
            pause = missing.pause(error)
        clock.sleep(pause)


@dataclass
class FailedAcknowledgement:
    """
    An acknowledgement that was not accepted yet.

    :param lease: the lease; after it has expired its messages are redelivered, and their runs are found.
    :param ids: ids of the messages.
    :param error: the error of the last attempt.
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
class InboxSession:
    """
    Leases and acknowledges the messages of one inbox; a context manager, which ends both.

    There is one call at a time, as a client must not be shared between threads.

    :param hook: sends the calls.
    :param inbox: id or name.
    :param alongside: whether calls may be sent from a thread. Without it nothing is leased ahead, and each
        acknowledgement is waited for.
    :param inbox_id: where to lease; looked up by the name where it is empty, or where that inbox was deleted.
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
    _pause: float = FIRST_PAUSE_SECONDS
    _hurries: bool = False

    def __enter__(self) -> InboxSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._even_if_ended(self._release_next)
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
        """Whether the next lease was requested already."""
        return self._next is not None

    def is_time_for_next(self, seconds: float) -> bool:
        """
        Whether the next lease should be requested now.

        :param seconds: estimated time until the runs of the current lease are started.
        """
        return not self.has_next and seconds <= LEASE_AHEAD_SECONDS and not self.unacknowledged

    def lease_ahead(self, count: int, seconds: int) -> None:
        """
        Request the next lease, while the runs of the current one are started.

        :param count: messages at most, 1 to 100.
        :param seconds: length of the lease, 1 to 3600 s.
        """
        if self.alongside and self._next is None:
            # Not patient: while the rate limit leaves no calls, the acknowledgement goes first.
            lease = tracing.carried(self._lease) if traces() else self._lease
            self._next = self._thread.submit(lease, count, seconds)
            self._next_size = count, seconds

    def lease(self, count: int, seconds: int) -> HeldLease | None:
        """
        The lease that was requested ahead, or a new one; None if the inbox is empty.

        :param count: messages at most, 1 to 100; not used for a lease that was requested ahead.
        :param seconds: length of the lease, 1 to 3600 s; likewise.
        :raises NotFoundError: there is no such inbox, and none was created under its name within 30 s.
        :raises WorkflowError: the service cannot be used; see ``lease_once``. Or an acknowledgement that was
            waited for has failed permanently: further leases would only use up deliveries.
        """
        if self._next is None:
            self._wait_for_thread()
            self._raise_if_rejected()
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

    def _raise_if_rejected(self) -> None:
        """Raise the error of an acknowledgement that has failed permanently while it was waited for."""
        rejected = next((each for each in self._failed if not each.is_transient), None)
        if rejected is not None:
            self._failed.remove(rejected)
            raise rejected.error

    def _lease(self, count: int, seconds: int) -> HeldLease | None:
        self.inbox_id = inbox_id = self.inbox_id or self.hook.get_inbox(self.inbox)["id"]
        try:
            lease = lease_once(self.hook, inbox_id, count, seconds, self.inbox)
        except NotFoundError:
            # Another one may have its name by now.
            self.inbox_id = ""
            raise
        return lease and replace(lease, inbox_id=inbox_id)

    # Acknowledging

    def acknowledge(self, lease: HeldLease, ids: list[str]) -> None:
        """
        Acknowledge messages of a lease; without waiting for the answer where the next lease is requested.

        An acknowledgement that fails raises nothing here: it is kept (see ``unacknowledged``).
        """
        if not ids:
            return
        if not self.alongside:
            self._acknowledge(lease, ids)
            return
        send = tracing.carried(self._acknowledge) if traces() else self._acknowledge
        before, self._acknowledging = self._acknowledging, self._thread.submit(send, lease, ids)
        if before is not None:
            before.result()
        if self._next is None:
            self._acknowledging.result()

    @property
    def unacknowledged(self) -> int:
        """Leases that have not expired and whose acknowledgement failed; it will be sent again."""
        for each in [each for each in self._failed if each.lease.ends_at <= clock.now()]:
            self._failed.remove(each)
            self._expired.append(each)
        return len({each.lease.lease_id for each in self._failed})

    @property
    def is_rejected(self) -> bool:
        """Whether an acknowledgement failed permanently: further leases would only use up deliveries."""
        return any(not each.is_transient for each in (*self._failed, *self._expired))

    def acknowledge_again(self) -> None:
        """Wait, then send each failed acknowledgement again, once."""
        if self._pause == FIRST_PAUSE_SECONDS:
            log.warning(
                "Inbox %s: an acknowledgement failed. The runs of its messages exist, runs of other messages"
                " are started as before, and the acknowledgement is sent again until the lease ends",
                self.inbox,
            )
        clock.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        self._send_again()
        if not self.unacknowledged:
            self._pause = FIRST_PAUSE_SECONDS

    def _send_again(self) -> None:
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

        def release() -> None:
            self._wait_for_thread()
            try_to_release(self.hook, lease.inbox_id, lease.lease_id, ids, self.inbox)

        self._even_if_ended(release)

    def hurry(self) -> None:
        """From now on send each call once, with a timeout of a few seconds, as the task is being ended."""
        # A separate client: the thread may be in the middle of a call with the first one.
        self.hook, self.alongside, self._hurries = self.hook.hurried(), False, True

    def _even_if_ended(self, act: Callable[[], None]) -> None:
        """Do something; if the task is ended meanwhile, do it again in a hurry."""
        try:
            act()
        except Exception:
            raise
        except BaseException:
            self.hurry()
            act()
            raise

    def _wait_for_thread(self) -> None:
        """Wait until the thread no longer uses the hook."""
        under_way: list[Future[Any]] = [
            each for each in (self._next, self._acknowledging) if each is not None
        ]
        wait(under_way, LAST_LEASE_SECONDS if self._hurries else None)

    def _release_next(self) -> None:
        self._wait_for_thread()
        if self._next is None or not self._next.done() or self._next.exception() is not None:
            return
        lease = self._next.result()
        if lease is not None:
            ids = [message["id"] for message in lease.messages]
            try_to_release(self.hook, lease.inbox_id, lease.lease_id, ids, self.inbox)


def _is_gone(hook: WorkflowHook, inbox_id: str) -> bool:
    """Whether an inbox was deleted, so that its acknowledgements fail for that reason alone."""
    try:
        return hook.get_inbox(inbox_id)["status"] == DELETING
    except WorkflowError as error:
        return isinstance(error, NotFoundError)
