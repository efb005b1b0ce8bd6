"""How a trigger polls until there is a result, what it logs of errors, and how soon it may resume a task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow.providers.common.compat.sdk import AirflowException, conf

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.errors import (
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.inboxes import FAILED, PAUSED
from airflow_provider_workflow.client.retry import LONGEST_WAIT_SECONDS
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import InboxUnusableError
from airflow_provider_workflow.triggers.wakeup import LEAST_PAUSE_SECONDS, Waits, wait_for

if TYPE_CHECKING:
    from airflow_provider_workflow.client.event_stream import Bell

T = TypeVar("T")

LONG_FAULT_SECONDS = 300.0
"""A series of faults that lasts longer is said once more, as an error."""
EXPLAINED = (WorkflowError, AirflowException)
"""Exceptions whose texts are sentences; others mean little without their type."""
LONGEST_ANSWER_SECONDS = 300.0
"""After so long without an answer a call of an asset watcher counts as an error, so that the log says so."""
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 300.0


class Faults:
    """
    Faults that follow one another, and the few lines that they are worth in a log.

    A series is said to have begun (WARNING), to last for five minutes (ERROR, once), and to be over
    (INFO); no line for each fault. A service that accepts no calls for more than a minute is a WARNING
    once in a series, with the seconds. A permanent error, which somebody has to fix, is an ERROR at once,
    each kind of it once in a series.

    :param inbox: how the inbox is named in the log.
    :param log: of the trigger.
    """

    def __init__(self, inbox: str, log: logging.Logger) -> None:
        self.inbox = plain(inbox)
        self.log = log
        self.count = 0
        self._since = 0.0
        self._long = False
        self._accepts_in: float | None = None
        self._wait_logged = False
        self._permanent_logged: set[type[Exception]] = set()

    def met(self, error: Exception) -> None:
        """There is one more."""
        self.count += 1
        if self.count == 1:
            self._since, self._long = clock.monotonic(), False
            self._wait_logged = False
            self._permanent_logged.clear()
        self._accepts_in = long_wait(error)
        if self._accepts_in is not None:
            self._log_wait(self._accepts_in, error)
        elif not may_pass(error):
            self._log_permanent(error)
        elif self.count == 1:
            self.log.warning("Inbox %s is unreachable; retrying: %s", self.inbox, explained(error))
        seconds = clock.monotonic() - self._since
        if seconds >= LONG_FAULT_SECONDS and not self._long:
            self._long = True
            self.log.error(
                "Inbox %s has been unreachable for %.0f minutes; retrying: %s",
                self.inbox,
                seconds / 60,
                explained(error),
            )

    def _log_wait(self, seconds: float, error: Exception) -> None:
        if not self._wait_logged:
            self._wait_logged = True
            self.log.warning(
                "Inbox %s is unreachable; retrying in %.0f s: %s",
                self.inbox,
                seconds,
                explained(error),
            )

    def _log_permanent(self, error: Exception) -> None:
        if type(error) not in self._permanent_logged:
            self._permanent_logged.add(type(error))
            # Of this provider's and Airflow's own exceptions the text says all there is to say.
            where = None if isinstance(error, EXPLAINED) else error
            self.log.error(
                "Inbox %s is unreachable until this is fixed: %s",
                self.inbox,
                explained(error),
                exc_info=where,
            )

    def over(self) -> None:
        """The service answered as it should."""
        if self.count:
            self.log.info("Inbox %s is within reach again", self.inbox)
        self.count = 0
        self._accepts_in = None

    def pause(self) -> float:
        """Seconds to wait before another try: 5, doubling with each fault of the series to 300."""
        return self.at_most(FIRST_PAUSE_SECONDS * 2 ** min(max(self.count - 1, 0), 10))

    def at_most(self, seconds: float) -> float:
        """
        A wait, shortened while the service is unreachable.

        :param seconds: the wait without faults.
        :return: at most 300 s, and no longer than until the service accepts calls again.
        """
        if not self.count:
            return seconds
        limits = [LONGEST_PAUSE_SECONDS, *([] if self._accepts_in is None else [self._accepts_in])]
        return float(min(seconds, *limits))


class InboxState:
    """
    Logs the states of an inbox that is watched on through all of them, each when it is new.

    :param inbox: id or name.
    :param done_while_paused: what is still done with the messages of a paused inbox.
    :param log: of the watcher.
    """

    def __init__(self, inbox: str, done_while_paused: str, log: logging.Logger) -> None:
        self._inbox = inbox
        self._done_while_paused = done_while_paused
        self._log = log
        self._said: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether any state of the inbox was seen."""
        return self._said is not None

    def seen(self, status: str, reason: str | None) -> None:
        """
        Take note of a state.

        :param reason: the ``paused_reason``, or None.
        :raises InboxUnusableError: the inbox failed to initialise.
        """
        if status == FAILED:
            raise InboxUnusableError(self._inbox, reason)
        text = status
        if status == PAUSED:
            text = (
                f"paused ({reason or 'no reason given'}): what it holds is still {self._done_while_paused},"
                " new events are dropped until it is resumed"
            )
        state = plain(text)
        if state != self._said:
            self._log.info("Inbox %s is %s", self._inbox, state)
        self._said = state


def may_pass(error: Exception) -> bool:
    """Whether an error is transient: it may pass without anybody fixing something."""
    if isinstance(error, TransportError):
        return not error.permanent
    return isinstance(error, (ServerError, RateLimitError, asyncio.TimeoutError))


def long_wait(error: Exception) -> float | None:
    """Seconds for which the service accepts no calls, where that is longer than a call waits by itself."""
    if isinstance(error, (RateLimitError, ServerError)) and error.retry_after is not None:
        return error.retry_after if error.retry_after > LONGEST_WAIT_SECONDS else None
    return None


def explained(error: Exception) -> str:
    """The cause of a fault, as one line of a log."""
    text = plain(str(error))
    return text if isinstance(error, EXPLAINED) else f"{type(error).__name__}: {text}"


async def patiently(
    attempt: Callable[[], Awaitable[T | None]],
    wait: Callable[[float], Awaitable[bool]],
    *,
    rest: Callable[[float], Awaitable[object]] | None = None,
    inbox: str,
    poll_interval: float,
    max_poll_interval: float,
    log: logging.Logger,
    faults: Faults | None = None,
) -> T:
    """
    Attempt something until it has a result, through transient errors; each series of them is logged once.

    :param attempt: attempts it once; None for no result yet.
    :param wait: waits so many seconds, or less; whether it was woken up, so that the interval begins anew.
    :param rest: waits so many seconds, whatever happens: after an error, and where a wake-up brought nothing.
        To be given where ``wait`` may wait for less.
    :param inbox: how the inbox is named in the log.
    :param poll_interval: seconds between the first two attempts, above 0; doubles from then on.
    :param max_poll_interval: seconds that it doubles up to.
    :param faults: the series that errors are part of; by default one of its own.
    :raises WorkflowError: a permanent error.
    """
    interval, woken = poll_interval, False
    faults = faults or Faults(inbox, log)
    while True:
        result = None
        try:
            result = await attempt()
        except (WorkflowError, asyncio.TimeoutError) as error:
            if not may_pass(error):
                raise
            faults.met(error)
        else:
            faults.over()
        if result is not None:
            return result
        # However many wake-ups there are, neither a service in trouble nor one whose messages others lease
        # is to be called without a pause.
        pause = 0.0
        if rest is not None and (faults.count or woken):
            pause = FIRST_PAUSE_SECONDS if faults.count else LEAST_PAUSE_SECONDS
            await rest(pause)
        length = faults.at_most(interval)
        woken = length > pause and await wait(length - pause)
        interval = poll_interval if woken and not faults.count else min(interval * 2, max_poll_interval)


async def poll(
    attempt: Callable[[], Awaitable[T | None]],
    bell: Bell | None,
    waits: Waits,
    log: logging.Logger,
    faults: Faults | None = None,
) -> T:
    """
    Do so for the messages of an inbox, woken up by its event stream.

    :param bell: of the event stream; None polls only.
    :raises WorkflowError: a permanent error.
    """
    return await patiently(
        attempt,
        partial(wait_for, bell),
        rest=partial(wait_for, None) if bell is not None else None,
        inbox=waits.inbox,
        poll_interval=waits.poll_interval,
        max_poll_interval=waits.max_poll_interval,
        log=log,
        faults=faults,
    )


async def persistently(
    watch: Callable[[Faults], AsyncGenerator[T, None]],
    *,
    inbox: str,
    log: logging.Logger,
) -> AsyncGenerator[T, None]:
    """
    Watch for ever: whatever ends the watch, begin it anew, later and later while it goes on failing.

    For the trigger of an asset, which Airflow makes anew every 2 s without a pause where it ends or
    raises. A wrong secret or a missing inbox is waited out as well: somebody may fix it, and the log says so.

    :param watch: opens its connection and yields; calls ``over`` of what it is given whenever the service
        answered as it should (``patiently`` does, given it), so that the pauses begin anew.
    :param inbox: how the inbox is named in the log.
    """
    faults = Faults(inbox, log)
    while True:
        try:
            async with aclosing(watch(faults)) as found:
                async for each in found:
                    yield each
        except Exception as error:
            faults.met(error)
        await clock.async_sleep(faults.pause())


def settle_seconds() -> float:
    """
    How long a task that gave up its worker has to stay away from one.

    Airflow may notice the end of the process as late as ``min_heartbeat_interval``; where the task is
    queued again by then, Airflow fails it.
    """
    return float(conf.getfloat("workers", "min_heartbeat_interval", fallback=5.0)) + 1


async def answered_in_time(answer: Awaitable[T]) -> T:
    """
    An answer of the service, if it comes within :data:`LONGEST_ANSWER_SECONDS`.

    :raises TransportError: it does not.
    """
    try:
        async with clock.timeout(LONGEST_ANSWER_SECONDS):
            return await answer
    except asyncio.TimeoutError:
        raise TransportError(
            f"the service gave no answer within {LONGEST_ANSWER_SECONDS:.0f} s; it may want fewer calls",
            sent=True,
        ) from None
