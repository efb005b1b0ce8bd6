"""Finding an inbox, and learning of its messages: by its event stream, polls, and lists of messages."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from airflow_provider_workflow import clock
from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.errors import InvalidRequestError, NotFoundError
from airflow_provider_workflow.client.settings import host_of

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.client.event_stream import WakeUps

LEAST_PAUSE_SECONDS = 1.0
"""Minimum seconds between two polls, also with wake-ups."""


MOST_PAGES = 10
"""Maximum number of pages that one poll of the list reads."""
PAGES_FROM_LIKELY = 4
"""How many of them are read from the likely page on; the others are left for the round."""
AVAILABLE = "available"


class Listed(NamedTuple):
    """
    The result of one poll of the list.

    :param available: ids of the available messages on the first page that has any; no page after it was read.
    :param whole: whether all pages were read, so that an empty ``available`` is certain.
    """

    available: frozenset[str] = frozenset()
    whole: bool = False


class NoticeSchedule:
    """
    When a notice is due: repeatedly while messages are available, not once for each arrival.

    It is due at once if none of the listed messages was listed at the last notice: the former ones were
    leased, and the task that leased them may have ended before the new ones arrived. Otherwise it is due
    every ``renotify_seconds``.

    If not all pages were read, no available message was found, and messages may have arrived, an uncertain
    notice is due: once for each such time, at most every ``renotify_seconds``.

    :param renotify_seconds: seconds between two notices for the same messages, and two uncertain ones.
    :param poll_interval: seconds between two polls; doubles while nothing is new.
    :param max_poll_interval: maximum interval in seconds.
    """

    def __init__(self, renotify_seconds: float, poll_interval: float, max_poll_interval: float) -> None:
        self._renotify_seconds = renotify_seconds
        self._poll_interval = poll_interval
        self._max_poll_interval = max_poll_interval
        self._interval = poll_interval
        self._noticed: frozenset[str] = frozenset()
        self._again_at = -math.inf
        self._in_doubt = True
        self._doubt_again_at = -math.inf

    def may_have_arrived(self) -> None:
        """Record that messages may have arrived: after a wake-up, or a time without an event stream."""
        self._in_doubt = True
        self._interval = self._poll_interval

    def is_due(self, listed: Listed, now: float) -> bool:
        """
        Whether a notice is due for the messages that were just listed.

        :param now: monotonic seconds.
        """
        if listed.available:
            self._in_doubt = False
            return self._is_due_for(listed.available, now)
        if listed.whole:
            self._in_doubt = False
            self._noticed = frozenset()
        elif self._in_doubt and now >= self._doubt_again_at:
            self._in_doubt = False
            self._doubt_again_at = now + self._renotify_seconds
            return True
        return False

    def _is_due_for(self, available: frozenset[str], now: float) -> bool:
        new = self._noticed.isdisjoint(available)
        if not new and now < self._again_at:
            return False
        if new:
            self._interval = self._poll_interval
        self._noticed = available
        self._again_at = now + self._renotify_seconds
        return True

    def next_poll(self, now: float) -> float:
        """
        Seconds until the next poll, unless a wake-up comes before.

        :param now: monotonic seconds.
        """
        wait, self._interval = self._interval, min(self._interval * 2, self._max_poll_interval)
        due = [self._again_at] if self._noticed else []
        due += [self._doubt_again_at] if self._in_doubt else []
        return min([wait, *(moment - now for moment in due if moment > now)])


TICK_SECONDS = 0.25
"""Waits end at multiples of it, so that pollers share timers, which takes half of the CPU time or less."""


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
    from airflow_provider_workflow.client import inboxes

    return await client.run(inboxes.at_inbox(client.settings, inbox, api.get_inbox))


async def find_inbox(client: AsyncWorkflowClient, inbox: str) -> str:
    """
    The id of an inbox.

    :param inbox: id or name.
    :raises NotFoundError: there is no such inbox.
    """
    return (await look_up(client, inbox))["id"]


@asynccontextmanager
async def wake_ups_of(
    client: AsyncWorkflowClient, inbox_id: str, wake_on_events: bool = True
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
    seconds = until_tick(clock.monotonic(), seconds)
    if wake_up is not None:
        return await wake_up.wait(seconds)
    await clock.async_sleep(seconds)
    return False


def until_tick(now: float, seconds: float) -> float:
    """
    Seconds until the first tick after ``seconds``.

    :param now: monotonic seconds.
    """
    return seconds + -(now + seconds) % TICK_SECONDS


class _StaleCursorError(Exception):
    """The service does not accept a remembered cursor any more."""


class Prober:
    """
    Polls the list of messages of one inbox, with at most :data:`MOST_PAGES` requests each time.

    The order of the list is not published (docs/service.md 4.4), so each poll reads the pages on which an
    available message is likely, and then some of the others:

    1. the first page, which has new messages if the list begins with the newest;
    2. the likely page, where an available message was last found, or else the last page, which has new
       messages if the list begins with the oldest; and the pages after it;
    3. the round: from where the last poll stopped to the end of the list, then from the second page again.

    So a list of up to ten pages is read completely each time. Of a longer list all pages are read in turn,
    five or more per poll, so that a message whose lease expired is found on any page.

    :param show: called with the messages of each page.
    """

    def __init__(
        self, client: AsyncWorkflowClient, inbox_id: str, show: Callable[[list[types.Message]], object]
    ) -> None:
        self._client = client
        self._inbox_id = inbox_id
        self._show = show
        self._likely_page: str | None = None
        self._round_at: str | None = None

    async def poll(self) -> Listed:
        """
        Poll once.

        :raises WorkflowError: the call fails.
        """
        found, second = await self._read(None)
        if second is None:
            self._likely_page = self._round_at = None
            return Listed(found, whole=True)
        if found:
            return Listed(found)
        try:
            return await self._poll_behind_the_front(second)
        except _StaleCursorError:
            self._likely_page = self._round_at = None
            return Listed()

    async def _poll_behind_the_front(self, second: str) -> Listed:
        likely, pages = self._likely_page, MOST_PAGES - 1
        found, rest, read = await self._follow(likely, None, PAGES_FROM_LIKELY)
        if found:
            return Listed(found)
        # If the pages from the likely page to the end were read, the round stops before them.
        end = likely if rest is None else None
        begins = self._round_at is None
        found, rest, _ = await self._follow(self._round_at or second, end, pages - read)
        self._round_at = None if rest == end else rest
        return Listed(found, whole=begins and rest == end)

    async def _follow(
        self, cursor: str | None, end: str | None, pages: int
    ) -> tuple[frozenset[str], str | None, int]:
        """
        Read pages until one has available messages.

        :param cursor: cursor of the first page; None reads nothing.
        :param end: cursor of the page to stop before; None reads to the end of the list.
        :param pages: maximum number of pages.
        :return: the ids found, the cursor of the next page, and the number of pages read.
        """
        found: frozenset[str] = frozenset()
        read = 0
        while cursor not in (None, end) and read < pages and not found:
            found, following = await self._read(cursor)
            read += 1
            if found or following is None:
                self._likely_page = cursor
            # Stop at a service that returns the same page without end.
            cursor = None if following == cursor else following
        return found, cursor, read

    async def _read(self, cursor: str | None) -> tuple[frozenset[str], str | None]:
        """The ids of the available messages of a page, and the cursor of the next page."""
        try:
            page = await self._client.send(api.list_messages(self._inbox_id, cursor))
        except (InvalidRequestError, NotFoundError):
            if cursor is None:
                raise
            raise _StaleCursorError from None
        self._show(page["results"])
        found = (each.get("id") for each in page["results"] if each.get("status") == AVAILABLE)
        return frozenset(str(each) for each in found), api.next_cursor(page)
