"""Looks whether an inbox has something to lease without leasing it: by its listing, a few pages at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.errors import InvalidRequestError, NotFoundError

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient

MOST_PAGES = 10
"""Pages that one look reads."""
PAGES_FROM_HOME = 4
"""How many of them are read from the remembered page on, so that some are left for the round."""
AVAILABLE = "available"


class Sight(NamedTuple):
    """
    What one look found.

    :param available: ids of the leasable messages on the first page that had any; nothing after it was read.
    :param whole: whether every page was read, so that nothing available means that there is nothing.
    """

    available: frozenset[str] = frozenset()
    whole: bool = False


class _StaleCursorError(Exception):
    """The service does not know a remembered page any more."""


class Prober:
    """
    Looks into one inbox again and again, within :data:`MOST_PAGES` requests each time.

    Nothing is published about the order of the list (docs/service.md 4), so each look reads where a leasable
    message is likely to stand, and then goes on with a round through all the others:

    1. the front page, where new messages stand in a list that begins with the newest;
    2. *home*: the page on which a leasable message was found last, or else the last page of the list, where
       new messages stand in a list that begins with the oldest, and the pages that follow it;
    3. the round: from where the last look left off to the end of the list, then again from the second page.

    So a list of up to ten pages is read whole each time, and of a longer one every page is read in its turn,
    five or more a look: a message whose lease ran out is found wherever it stands.

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

    async def look(self) -> Sight:
        """
        Look once.

        :raises WorkflowError: the service cannot be asked.
        """
        found, second = await self._read(None)
        if second is None:
            self._home = self._round_at = None
            return Sight(found, whole=True)
        if found:
            return Sight(found)
        try:
            return await self._look_behind_the_front(second)
        except _StaleCursorError:
            self._home = self._round_at = None
            return Sight()

    async def _look_behind_the_front(self, second: str) -> Sight:
        home, pages = self._home, MOST_PAGES - 1
        found, rest, read = await self._follow(home, None, PAGES_FROM_HOME)
        if found:
            return Sight(found)
        # Where the pages from home on are known to the end, the round need not read them again.
        end = home if rest is None else None
        begins = self._round_at is None
        found, rest, _ = await self._follow(self._round_at or second, end, pages - read)
        self._round_at = None if rest == end else rest
        return Sight(found, whole=begins and rest == end)

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
