"""What all triggers share: access to the inbox, the waits between polls, and errors that do not end them."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.client import api, event_stream, inboxes
from airflow_provider_workflow.client.errors import WorkflowError, requested_wait
from airflow_provider_workflow.config import max_event_streams
from airflow_provider_workflow.dispatch.quarantine import report_quarantined
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.source import SourceError, problem_of, reading_pause
from airflow_provider_workflow.text import escaped, host_of

if TYPE_CHECKING:
    from airflow_provider_workflow.client.async_client import AsyncWorkflowClient

LONG_SERIES_SECONDS = 300.0
"""A series of errors that lasts longer is logged as an ERROR."""
FIRST_PAUSE_SECONDS = 5.0
"""Pause after the first error of a series; it doubles with each further one."""
MIN_WAIT_SECONDS = 1.0
"""Minimum seconds between two polls, also with wake-ups."""
TICK_SECONDS = 0.25
"""Waits end at multiples of it, so that pollers wake up together, which at least halves their CPU time."""
MAX_WATCHED_PAGES = 10
"""Maximum number of pages of the list that one poll reads."""
UNSEEN = frozenset({""})
"""Used where the first pages have no available message, but the list goes on."""
SELF_EXPLANATORY = (WorkflowError, AirflowException)
"""Exceptions whose texts are sentences for users: they are logged without type and traceback."""


class PollingOptions(Protocol):
    """The arguments of a trigger that waits for the messages of an inbox."""

    inbox: str
    workflow_conn_id: str
    wake_on_events: bool
    poll_interval: float
    max_poll_interval: float


class InboxHealth:
    """
    Logs errors of an inbox and changes of its state, and says how long to wait after an error.

    Errors up to the next success are a series. An error is logged if the one before it in the series had
    another type: as a WARNING if it is transient, else as an ERROR. A series that lasts five minutes is
    logged as an ERROR once, and its end at INFO.

    :param inbox: id or name.
    :param conn_id: id of the Airflow connection.
    :param log: logger of the trigger.
    """

    def __init__(self, inbox: str, conn_id: str, log: logging.Logger) -> None:
        self._inbox_as_given = inbox
        self._conn_id = conn_id
        self.log = log
        self.errors = 0
        self._since = 0.0
        self._logged: type[Exception] | None = None
        self._is_long = False
        self._state: str | None = None

    @property
    def _inbox(self) -> str:
        """The name of the inbox, as far as this process knows it; escaped."""
        return name_of(self._inbox_as_given, self._conn_id)

    def failed(self, error: Exception) -> float:
        """
        Count and log an error.

        :return: seconds to wait before the next attempt: 5, doubled with each error of the series, and at
            most a random 20 to 55, so that an inbox that is usable again is polled within a minute. It is
            longer, up to 3600, if the service requested that.
        """
        if self.errors == 0:
            self._since, self._logged, self._is_long = clock.monotonic(), None, False
        self.errors += 1
        seconds = clock.monotonic() - self._since
        if seconds >= LONG_SERIES_SECONDS and not self._is_long:
            self._is_long = True
            text = "Inbox %s has been unusable for %.0f minutes; retrying: %s"
            self.log.error(text, self._inbox, seconds / 60, log_text(error))
        elif type(error) is not self._logged:
            self._log_first(error)
        self._logged = type(error)
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self.errors - 1, 10), reading_pause())
        return max(pause, requested_wait(error))

    def _log_first(self, error: Exception) -> None:
        if isinstance(error, WorkflowError) and error.transient:
            self.log.warning("Inbox %s is unreachable; retrying: %s", self._inbox, log_text(error))
        else:
            text = "Inbox %s cannot be used until this is fixed: %s"
            traceback = None if isinstance(error, SELF_EXPLANATORY) else error
            self.log.error(text, self._inbox, log_text(error), exc_info=traceback)

    def succeeded(self) -> None:
        """End the series of errors, if there is one."""
        if self.errors:
            self.log.info("Inbox %s is reachable again", self._inbox)
        self.errors = 0

    def seen(self, inbox: Mapping[str, Any]) -> None:
        """
        Log the state of the inbox if it has changed.

        :param inbox: ``status`` and ``paused_reason``; both may be absent.
        :raises SourceError: the inbox failed to initialize.
        """
        problem = problem_of(inbox, self._inbox, self._conn_id)
        if problem is not None and inbox["status"] == types.FAILED:
            raise SourceError(problem)
        state = problem.text if problem else f"Inbox {self._inbox} is {escaped(str(inbox.get('status')))}"
        if inbox.get("status") and state != self._state:
            self.log.log(logging.WARNING if problem else logging.INFO, "%s", state)
            self._state = state


class Waits:
    """
    The waits between the polls of an inbox: ``poll_interval``, doubled each time up to ``max_poll_interval``.

    A wake-up ends a wait, but not before its minimum, and lets the intervals start again.

    :param wake_up: set by the inbox's event stream; None if there is no stream.
    """

    def __init__(self, options: PollingOptions, wake_up: asyncio.Event | None) -> None:
        self._options = options
        self._wake_up = wake_up
        self.reset()

    def reset(self) -> None:
        """Let the next wait be ``poll_interval``."""
        self._interval = self._options.poll_interval

    async def wait(self, min_seconds: float = MIN_WAIT_SECONDS, max_seconds: float = math.inf) -> None:
        """
        Wait until the next poll is due.

        :param min_seconds: minimum, also with wake-ups.
        :param max_seconds: maximum, unless ``min_seconds`` is more.
        """
        seconds = max(min_seconds, min(self._interval, max_seconds))
        seconds += -(clock.monotonic() + seconds) % TICK_SECONDS  # round its end up to the next tick
        self._interval = min(self._interval * 2, self._options.max_poll_interval)
        if self._wake_up is None:
            await clock.async_sleep(seconds)
            return
        await clock.async_sleep(min_seconds)
        with suppress(TimeoutError):
            async with clock.timeout(seconds - min_seconds):
                await self._wake_up.wait()
            self._wake_up.clear()
            self.reset()


@dataclass
class InboxSession:
    """
    What a trigger needs while it waits for the messages of an inbox.

    :param client: open while the session is.
    :param inbox: the inbox, as the service described it when the session began.
    :param waits: the waits between polls.
    """

    client: AsyncWorkflowClient
    inbox: types.Inbox
    waits: Waits


@asynccontextmanager
async def open_session(options: PollingOptions, health: InboxHealth) -> AsyncIterator[InboxSession]:
    """
    Open a client with the current connection, look the inbox up, and listen to its event stream.

    All triggers of an inbox share one stream. If ``[workflow] max_event_streams`` are open, the inbox is only
    polled.

    :raises WorkflowError: the connection cannot be used, or there is no such inbox.
    """
    async with WorkflowHook(options.workflow_conn_id).async_client() as client:
        inbox = await look_up(client, options.inbox)
        streams = max_event_streams() if options.wake_on_events else 0
        async with event_stream.listen(client, inbox["id"], streams) as wake_up:
            if health.errors == 0:
                health.log.info(
                    "Inbox %s at %s: waiting for messages, by %s every %g to %g s",
                    name_of(options.inbox, options.workflow_conn_id),
                    host_of(client.settings.base_url),
                    "its event stream and by polling" if options.wake_on_events else "polling",
                    options.poll_interval,
                    options.max_poll_interval,
                )
            yield InboxSession(client, inbox, Waits(options, wake_up))


async def look_up(client: AsyncWorkflowClient, inbox: str) -> types.Inbox:
    """
    Read an inbox; by its name, also one that was deleted and created again is found.

    :param inbox: id or name.
    :raises NotFoundError: there is no such inbox.
    """
    if inboxes.is_id(inbox):
        return await client.send(api.get_inbox(inbox))
    return await inboxes.find(client.send, inbox)


async def available_in(session: InboxSession, options: PollingOptions) -> frozenset[str]:
    """
    The ids of available messages of the first page that has any (docs/service.md 4); ``UNSEEN`` if there may
    be some behind the pages that are read.

    Quarantined messages of these pages are reported.
    """
    cursor: str | None = None
    for _ in range(MAX_WATCHED_PAGES):
        page = await session.client.send(api.list_messages(session.inbox["id"], cursor))
        messages = page["results"]
        report_quarantined(messages, inbox=options.inbox, conn_id=options.workflow_conn_id)
        available = frozenset(
            str(message.get("id")) for message in messages if message.get("status") == "available"
        )
        cursor = api.next_cursor(page)
        if available or cursor is None:
            return available
    return UNSEEN


def log_text(error: Exception) -> str:
    """An error as one line for the log, with its type unless its text is a sentence."""
    text = escaped(str(error))
    return text if isinstance(error, SELF_EXPLANATORY) else f"{type(error).__name__}: {text}"
