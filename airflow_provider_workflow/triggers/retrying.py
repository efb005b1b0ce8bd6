"""Polling with retries for triggers, and the logging of consecutive errors."""

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
from airflow_provider_workflow.triggers.wakeup import LEAST_PAUSE_SECONDS, PollingOptions, wait_for

if TYPE_CHECKING:
    from airflow_provider_workflow.client.event_stream import WakeUps

T = TypeVar("T")

LONG_FAULT_SECONDS = 300.0
"""A series of errors that lasts longer is logged as an ERROR."""
EXPLAINED = (WorkflowError, AirflowException)
"""Exceptions that are logged without their type, as their texts are sentences."""
LONGEST_ANSWER_SECONDS = 300.0
"""A call of an asset watcher without an answer for this time is an error, so that it is logged."""
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 300.0


class Faults:
    """
    Logs a series of consecutive errors in a few lines.

    The first error is logged as a WARNING, a series that lasts five minutes as an ERROR (once), and its
    end at INFO. If the service accepts no calls for more than a minute, a WARNING has the seconds, once in
    a series. A permanent error is logged as an ERROR at once, each type once in a series.

    :param inbox: name of the inbox in the log.
    :param log: logger of the trigger.
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
        """Count and log an error."""
        self.count += 1
        if self.count == 1:
            self._since, self._long = clock.monotonic(), False
            self._wait_logged = False
            self._permanent_logged.clear()
        self._accepts_in = long_wait(error)
        if self._accepts_in is not None:
            self._log_wait(self._accepts_in, error)
        elif not is_transient(error):
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
            # With a traceback, except for exceptions whose texts are sufficient.
            where = None if isinstance(error, EXPLAINED) else error
            self.log.error(
                "Inbox %s is unreachable until this is fixed: %s",
                self.inbox,
                explained(error),
                exc_info=where,
            )

    def over(self) -> None:
        """End the series: a call succeeded."""
        if self.count:
            self.log.info("Inbox %s is reachable again", self.inbox)
        self.count = 0
        self._accepts_in = None

    def pause(self) -> float:
        """Seconds to wait before the next attempt: 5, doubled with each error of the series up to 300."""
        return self.at_most(FIRST_PAUSE_SECONDS * 2 ** min(max(self.count - 1, 0), 10))

    def at_most(self, seconds: float) -> float:
        """
        Limit a wait during a series of errors.

        :param seconds: the wait without errors.
        :return: at most 300 s, and not longer than until the service accepts calls again.
        """
        if not self.count:
            return seconds
        limits = [LONGEST_PAUSE_SECONDS, *([] if self._accepts_in is None else [self._accepts_in])]
        return float(min(seconds, *limits))


class InboxState:
    """
    Logs each change of the state of an inbox that is watched.

    :param inbox: id or name.
    :param done_while_paused: past participle for the log, such as "leased": what still happens to the
        messages of a paused inbox.
    :param log: logger of the watcher.
    """

    def __init__(self, inbox: str, done_while_paused: str, log: logging.Logger) -> None:
        self._inbox = inbox
        self._done_while_paused = done_while_paused
        self._log = log
        self._logged: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether a state of the inbox is known."""
        return self._logged is not None

    def seen(self, status: str, reason: str | None) -> None:
        """
        Record and log a state.

        :param reason: the ``paused_reason``, or None.
        :raises InboxUnusableError: the inbox failed to initialize.
        """
        if status == FAILED:
            raise InboxUnusableError(self._inbox, reason)
        text = status
        if status == PAUSED:
            text = (
                f"paused ({reason or 'no reason given'}): its messages are still {self._done_while_paused},"
                " new events are dropped until it is resumed"
            )
        state = plain(text)
        if state != self._logged:
            self._log.info("Inbox %s is %s", self._inbox, state)
        self._logged = state


def is_transient(error: Exception) -> bool:
    """Whether an error is transient, so that a retry may succeed."""
    return error.transient if isinstance(error, WorkflowError) else isinstance(error, asyncio.TimeoutError)


def long_wait(error: Exception) -> float | None:
    """Seconds until the service accepts calls, if that is longer than a call itself waits; else None."""
    if isinstance(error, (RateLimitError, ServerError)) and error.retry_after is not None:
        return error.retry_after if error.retry_after > LONGEST_WAIT_SECONDS else None
    return None


def explained(error: Exception) -> str:
    """An error as one line for the log."""
    text = plain(str(error))
    return text if isinstance(error, EXPLAINED) else f"{type(error).__name__}: {text}"


async def attempt_until_result(
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
    Call ``attempt`` until it has a result, retrying after transient errors.

    :param attempt: returns a result, or None if there is none yet.
    :param wait: waits up to a number of seconds; returns whether a wake-up ended it, which resets the
        interval.
    :param rest: waits exactly a number of seconds, after an error and after a wake-up without a result.
        Required if ``wait`` may return early.
    :param inbox: name of the inbox in the log.
    :param poll_interval: seconds between the first two attempts, above 0; it doubles from then on.
    :param max_poll_interval: maximum interval in seconds.
    :param faults: the series that errors are added to; a new one by default.
    :raises WorkflowError: a permanent error.
    """
    interval, woken = poll_interval, False
    faults = faults or Faults(inbox, log)
    while True:
        result = None
        try:
            result = await attempt()
        except (TimeoutError, WorkflowError) as error:
            if not is_transient(error):
                raise
            faults.met(error)
        else:
            faults.over()
        if result is not None:
            return result
        # A pause in spite of wake-ups: after errors, and if other consumers lease the messages.
        pause = 0.0
        if rest is not None and (faults.count or woken):
            pause = FIRST_PAUSE_SECONDS if faults.count else LEAST_PAUSE_SECONDS
            await rest(pause)
        length = faults.at_most(interval)
        woken = length > pause and await wait(length - pause)
        interval = poll_interval if woken and not faults.count else min(interval * 2, max_poll_interval)


async def poll(
    attempt: Callable[[], Awaitable[T | None]],
    wake_up: WakeUps | None,
    options: PollingOptions,
    log: logging.Logger,
    faults: Faults | None = None,
) -> T:
    """
    Call :func:`attempt_until_result` for an inbox, with wake-ups of its event stream.

    :param wake_up: wake-ups of the event stream; None only polls.
    :raises WorkflowError: a permanent error.
    """
    return await attempt_until_result(
        attempt,
        partial(wait_for, wake_up),
        rest=partial(wait_for, None) if wake_up is not None else None,
        inbox=options.inbox,
        poll_interval=options.poll_interval,
        max_poll_interval=options.max_poll_interval,
        log=log,
        faults=faults,
    )


async def watch_forever(
    watch: Callable[[Faults], AsyncGenerator[T, None]],
    *,
    inbox: str,
    log: logging.Logger,
) -> AsyncGenerator[T, None]:
    """
    Watch without end: restart ``watch`` after each error, with growing pauses.

    For triggers of assets, which Airflow restarts every 2 s if they end or raise. Permanent errors are
    retried too: they are logged, and may be fixed meanwhile.

    :param watch: opens its connection and yields; it calls ``over`` of the given series after each
        successful call (:func:`attempt_until_result` does), which resets the pauses.
    :param inbox: name of the inbox in the log.
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
    Seconds that a deferred task must wait before it is resumed.

    Airflow notices the end of its process up to ``min_heartbeat_interval`` later, and fails the task if it is
    queued again before that.
    """
    return float(conf.getfloat("workers", "min_heartbeat_interval", fallback=5.0)) + 1


async def answered_in_time(answer: Awaitable[T]) -> T:
    """
    Wait for an answer of the service, at most :data:`LONGEST_ANSWER_SECONDS`.

    :raises TransportError: there was no answer in time.
    """
    try:
        async with clock.timeout(LONGEST_ANSWER_SECONDS):
            return await answer
    except TimeoutError:
        raise TransportError(
            f"the service did not answer within {LONGEST_ANSWER_SECONDS:.0f} s; it may limit the rate",
            sent=True,
        ) from None
