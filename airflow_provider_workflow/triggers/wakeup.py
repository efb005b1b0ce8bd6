"""How a trigger finds its inbox and learns of its messages: by the event stream, polling, and listings."""

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
    from airflow_provider_workflow.client.event_stream import Bell

LEAST_PAUSE_SECONDS = 1.0
"""How far two polls are apart at least, however often the event stream wakes them up."""


MOST_PAGES = 10
"""Pages that one poll of the listing reads."""
PAGES_FROM_HOME = 4
"""How many of them are read from the remembered page on, so that some are left for the round."""
AVAILABLE = "available"


class Listed(NamedTuple):
    """
    What one poll of the listing found.

    :param available: ids of the leasable messages on the first page that had any; nothing after it was read.
    :param whole: whether every page was read, so that nothing available means that there is nothing.
    """

    available: frozenset[str] = frozenset()
    whole: bool = False


class NoticeSchedule:
    """
    When a notice is due: again and again while there is something to lease, not once for each arrival.

    It is due at once when messages are listed of which none was there at the last notice: those were leased
    then, and whoever leased them may have left before these came. Otherwise it is due every
    ``renotify_seconds``.

    Where a listing was cut short without finding anything, and something may have arrived, it is due in
    doubt: once for each time that something may have arrived, at most every ``renotify_seconds``.

    :param renotify_seconds: between two notices for the same messages, and between two in doubt.
    :param poll_interval: seconds from one poll to the next; doubles while nothing is new.
    :param max_poll_interval: seconds that it doubles up to.
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
        """Something may have arrived: the event stream said so, or nobody listened for a while."""
        self._in_doubt = True
        self._interval = self._poll_interval

    def is_due(self, listed: Listed, now: float) -> bool:
        """
        Whether a notice is due for what was just listed.

        :param now: seconds of a clock that only goes forward.
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
        Seconds until the next poll, whatever the event stream says in between.

        :param now: seconds of the same clock.
        """
        wait, self._interval = self._interval, min(self._interval * 2, self._max_poll_interval)
        due = [self._again_at] if self._noticed else []
        due += [self._doubt_again_at] if self._in_doubt else []
        return min([wait, *(moment - now for moment in due if moment > now)])


TICK_SECONDS = 0.25
"""Waits end at multiples of it: what polls together shares its wake-ups, and takes half the CPU or less."""


class Waits(Protocol):
    """The arguments of whatever waits for the messages of an inbox."""

    @property
    def inbox(self) -> str: ...
    @property
    def wake_on_events(self) -> bool: ...
    @property
    def poll_interval(self) -> float: ...
    @property
    def max_poll_interval(self) -> float: ...


def log_wait(log: logging.Logger, client: AsyncWorkflowClient, waits: Waits) -> None:
    """Say that waiting begins: for which inbox, where, and how."""
    log.info(
        "Inbox %s at %s: waiting for messages, %severy %g to %g s",
        waits.inbox,
        host_of(client.settings.base_url),
        "by its event stream and by polling " if waits.wake_on_events else "by polling ",
        waits.poll_interval,
        waits.max_poll_interval,
    )


async def look_up(client: AsyncWorkflowClient, inbox: str) -> types.Inbox:
    """
    An inbox as it is now; one that was deleted and created again under its name is found again.

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
async def bell_of(
    client: AsyncWorkflowClient, inbox_id: str, wake_on_events: bool = True
) -> AsyncIterator[Bell | None]:
    """
    The bell of an inbox's event stream, or None where nobody wants one.

    The stream is shared by all that listen to the inbox; beyond ``[workflow] max_event_streams`` the bell
    never rings, and polling does.
    """
    from airflow_provider_workflow.client.event_stream import listen
    from airflow_provider_workflow.config import max_event_streams

    if not wake_on_events:
        yield None
        return
    async with listen(client, inbox_id, max_event_streams()) as bell:
        yield bell


async def wait_for(bell: Bell | None, seconds: float) -> bool:
    """
    Wait for a ring; whether it rang.

    :param seconds: at most, 0 or more; up to :data:`TICK_SECONDS` longer, so that others end then too.
    """
    seconds = until_tick(clock.monotonic(), seconds)
    if bell is not None:
        return await bell.wait(seconds)
    await clock.async_sleep(seconds)
    return False


def until_tick(now: float, seconds: float) -> float:
    """
    As many seconds, and those to the next tick.

    :param now: seconds of a clock that all share.
    """
    return seconds + -(now + seconds) % TICK_SECONDS


class _StaleCursorError(Exception):
    """The service does not know a remembered page any more."""


class Prober:
    """
    Polls the listing of one inbox, within :data:`MOST_PAGES` requests each time.

    Nothing is published about the order of the list (docs/service.md 4), so each poll reads where a leasable
    message is likely to stand, and then goes on with a round through all the others:

    1. the front page, where new messages stand in a list that begins with the newest;
    2. *home*: the page on which a leasable message was found last, or else the last page of the list, where
       new messages stand in a list that begins with the oldest, and the pages that follow it;
    3. the round: from where the last poll left off to the end of the list, then again from the second page.

    So a list of up to ten pages is read whole each time, and of a longer one every page is read in its turn,
    five or more a poll: a message whose lease expired is found wherever it stands.

    :param client: talks to the service.
    :param inbox_id: id of the inbox.
    :param show: is shown the messages of every page.
    """

    def __init__(
        self, client: AsyncWorkflowClient, inbox_id: str, show: Callable[[list[types.Message]], object]
    ) -> None:
        self._client = client
        self._inbox_id = inbox_id
        self._show = show
        self._home: str | None = None
        self._round_at: str | None = None

    async def poll(self) -> Listed:
        """
        Poll once.

        :raises WorkflowError: the call fails.
        """
        found, second = await self._read(None)
        if second is None:
            self._home = self._round_at = None
            return Listed(found, whole=True)
        if found:
            return Listed(found)
        try:
            return await self._poll_behind_the_front(second)
        except _StaleCursorError:
            self._home = self._round_at = None
            return Listed()

    async def _poll_behind_the_front(self, second: str) -> Listed:
        home, pages = self._home, MOST_PAGES - 1
        found, rest, read = await self._follow(home, None, PAGES_FROM_HOME)
        if found:
            return Listed(found)
        # Where the pages from home on are known to the end, the round need not read them again.
        end = home if rest is None else None
        begins = self._round_at is None
        found, rest, _ = await self._follow(self._round_at or second, end, pages - read)
        self._round_at = None if rest == end else rest
        return Listed(found, whole=begins and rest == end)

    async def _follow(
        self, cursor: str | None, end: str | None, pages: int
    ) -> tuple[frozenset[str], str | None, int]:
        """
        Read page after page until there is something to lease.

        :param cursor: of the first page; None reads nothing.
        :param end: cursor of the page to stop before; None goes on to the end of the list.
        :param pages: how many at most.
        :return: what was found, the cursor of the page to go on with, and how many pages were read.
        """
        found: frozenset[str] = frozenset()
        read = 0
        while cursor not in (None, end) and read < pages and not found:
            found, following = await self._read(cursor)
            read += 1
            if found or following is None:
                self._home = cursor
            # A service that shows one page for ever must not be listened to for ever.
            cursor = None if following == cursor else following
        return found, cursor, read

    async def _read(self, cursor: str | None) -> tuple[frozenset[str], str | None]:
        """The leasable messages of a page, and the cursor of the page after it."""
        try:
            page = await self._client.send(api.list_messages(self._inbox_id, cursor))
        except (InvalidRequestError, NotFoundError):
            if cursor is None:
                raise
            raise _StaleCursorError from None
        self._show(page["results"])
        found = (each.get("id") for each in page["results"] if each.get("status") == AVAILABLE)
        return frozenset(str(each) for each in found), api.next_cursor(page)
