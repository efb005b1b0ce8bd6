"""What all triggers share: errors that do not end them, wake-ups, and the wait between two polls."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.client import api, inboxes
from airflow_provider_workflow.client.errors import (
    RateLimitError,
    ServerError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.client.retry import LONGEST_WAIT_SECONDS
from airflow_provider_workflow.client.settings import host_of
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.lease import InboxUnusableError

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.client.event_stream import WakeUps

T = TypeVar("T")

LONG_FAULT_SECONDS = 300.0
"""A series of errors that lasts longer is logged as an ERROR."""
LONGEST_ANSWER_SECONDS = 300.0
"""A call of an asset watcher without an answer for this time is an error, so that it is logged."""
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 300.0
LEAST_PAUSE_SECONDS = 1.0
"""Minimum seconds between two polls, also with wake-ups."""
TICK_SECONDS = 0.25
"""Waits end at multiples of it, so that pollers share timers, which takes half of the CPU time or less."""
EXPLAINED = (WorkflowError, AirflowException)
"""Exceptions that are logged without their type, as their texts are sentences."""


class PollingOptions(Protocol):
    """The arguments of a trigger that waits for the messages of an inbox."""

    @property
    def inbox(self) -> str: ...
    @property
    def wake_on_events(self) -> bool: ...
    @property
    def poll_interval(self) -> float: ...
    @property
    def max_poll_interval(self) -> float: ...


class Faults:
    """
    A series of consecutive errors: what is logged of it, and how long to wait.

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
        self._logged: set[object] = set()
        self._accepts_in: float | None = None

    def met(self, error: Exception) -> None:
        """Count and log an error."""
        if self.count == 0:
            self._since = clock.monotonic()
            self._logged.clear()
        self.count += 1
        self._accepts_in = _long_wait(error)
        if self._accepts_in is not None:
            text = f"is unreachable; retrying in {self._accepts_in:.0f} s"
            self._log_once(logging.WARNING, "wait", text, error)
        elif not _is_transient(error):
            self._log_once(logging.ERROR, type(error), "is unreachable until this is fixed", error)
        elif self.count == 1:
            self._log_once(logging.WARNING, "transient", "is unreachable; retrying", error)
        seconds = clock.monotonic() - self._since
        if seconds >= LONG_FAULT_SECONDS:
            text = f"has been unreachable for {seconds / 60:.0f} minutes; retrying"
            self._log_once(logging.ERROR, "long", text, error)

    def _log_once(self, level: int, key: object, text: str, error: Exception) -> None:
        if key not in self._logged:
            self._logged.add(key)
            # With a traceback where an error is neither expected nor explained by its text.
            traceback = error if key is type(error) and not isinstance(error, EXPLAINED) else None
            self.log.log(level, "Inbox %s %s: %s", self.inbox, text, explained(error), exc_info=traceback)

    def over(self) -> None:
        """End the series: a call succeeded."""
        if self.count:
            self.log.info("Inbox %s is reachable again", self.inbox)
        self.count = 0

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
        accepts_in = seconds if self._accepts_in is None else self._accepts_in
        return min(seconds, LONGEST_PAUSE_SECONDS, accepts_in)


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
        if status == types.FAILED:
            raise InboxUnusableError(self._inbox, reason)
        text = status
        if status == types.PAUSED:
            text = (
                f"paused ({reason or 'no reason given'}): its messages are still {self._done_while_paused},"
                " new events are dropped until it is resumed"
            )
        state = plain(text)
        if state != self._logged:
            self._log.info("Inbox %s is %s", self._inbox, state)
        self._logged = state


def _is_transient(error: Exception) -> bool:
    return error.transient if isinstance(error, WorkflowError) else isinstance(error, TimeoutError)


def _long_wait(error: Exception) -> float | None:
    """Seconds until the service accepts calls, if that is longer than a call itself waits; else None."""
    if isinstance(error, (RateLimitError, ServerError)) and error.retry_after is not None:
        return error.retry_after if error.retry_after > LONGEST_WAIT_SECONDS else None
    return None


def explained(error: Exception) -> str:
    """An error as one line for the log."""
    text = plain(str(error))
    return text if isinstance(error, EXPLAINED) else f"{type(error).__name__}: {text}"


async def poll(
    attempt: Callable[[], Awaitable[T | None]],
    wake_up: WakeUps | None,
    options: PollingOptions,
    faults: Faults,
) -> T:
    """
    Call ``attempt`` until it has a result, retrying after transient errors.

    :param attempt: returns a result, or None if there is none yet.
    :param wake_up: wake-ups of the inbox's event stream, which reset the interval; None only polls.
    :param options: ``poll_interval`` is the time between the first two attempts; it doubles from then on.
    :param faults: the series that errors are added to.
    :raises WorkflowError: a permanent error.
    """
    interval, woken = options.poll_interval, False
    while True:
        result = None
        try:
            result = await attempt()
        except (TimeoutError, WorkflowError) as error:
            if not _is_transient(error):
                raise
            faults.met(error)
        else:
            faults.over()
        if result is not None:
            return result
        # A pause in spite of wake-ups: after errors, and if other consumers lease the messages.
        pause = 0.0
        if wake_up is not None and (faults.count or woken):
            pause = FIRST_PAUSE_SECONDS if faults.count else LEAST_PAUSE_SECONDS
            await wait_for(None, pause)
        length = faults.at_most(interval)
        woken = length > pause and await wait_for(wake_up, length - pause)
        resets = woken and not faults.count
        interval = options.poll_interval if resets else min(interval * 2, options.max_poll_interval)


async def watch_forever(
    watch: Callable[[Faults], AsyncGenerator[T, None]], inbox: str, log: logging.Logger
) -> AsyncGenerator[T, None]:
    """
    Watch without end: restart ``watch`` after each error, with growing pauses.

    For triggers of assets, which Airflow restarts every 2 s if they end or raise. Permanent errors are
    retried too: they are logged, and may be fixed meanwhile.

    :param watch: opens its connection and yields; it calls ``over`` of the given series after each
        successful call (:func:`poll` does), which resets the pauses.
    :param inbox: name of the inbox in the log.
    """
    faults = Faults(inbox, log)
    while True:
        try:
            async with aclosing(watch(faults)) as results:
                async for result in results:
                    yield result
        except Exception as error:
            faults.met(error)
        await clock.async_sleep(faults.pause())


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


def log_wait(log: logging.Logger, client: AsyncWorkflowClient, options: PollingOptions) -> None:
    """Log that waiting begins: the inbox, the host, event stream or polling, and the interval."""
    log.info(
        "Inbox %s at %s: waiting for messages, %severy %g to %g s",
        options.inbox,
        host_of(client.settings.base_url),
        "by its event stream and by polling " if options.wake_on_events else "by polling ",
        options.poll_interval,
        options.max_poll_interval,
    )


async def look_up(client: AsyncWorkflowClient, inbox: str) -> types.Inbox:
    """
    Read an inbox; one that was deleted and created again under its name is found.

    :param inbox: id or name.
    :raises NotFoundError: there is no such inbox.
    """
    return await client.run(inboxes.at_inbox(client.settings, inbox, api.get_inbox))


@asynccontextmanager
async def wake_ups_of(
    client: AsyncWorkflowClient, inbox_id: str, wake_on_events: bool
) -> AsyncIterator[WakeUps | None]:
    """
    The wake-ups of an inbox's event stream; None if ``wake_on_events`` is False.

    All listeners of an inbox share one stream. Beyond ``[workflow] max_event_streams`` there are no
    wake-ups, and the inbox is only polled.
    """
    from airflow_provider_workflow.client.event_stream import listen
    from airflow_provider_workflow.config import max_event_streams

    if not wake_on_events:
        yield None
        return
    async with listen(client, inbox_id, max_event_streams()) as wake_up:
        yield wake_up


async def wait_for(wake_up: WakeUps | None, seconds: float) -> bool:
    """
    Wait for a wake-up; return whether there was one.

    :param seconds: maximum, 0 or more; rounded up to a multiple of :data:`TICK_SECONDS` of the clock.
    """
    seconds += -(clock.monotonic() + seconds) % TICK_SECONDS
    if wake_up is not None:
        return await wake_up.wait(seconds)
    await clock.async_sleep(seconds)
    return False
