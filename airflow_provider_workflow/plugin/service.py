"""
Calls to the service for the page of inboxes, each answer within 4 s.

The API server runs Airflow's UI and, by default, the requests of all running tasks: a service that is slow or
away must cost it nothing. So calls are made once, never wait at a rate gate, and share one time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.arguments import PAGE_SIZE
from airflow_provider_workflow.client.call import Call, Family
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.errors import TransportError, WorkflowError
from airflow_provider_workflow.client.settings import USER_GRANT, Settings
from airflow_provider_workflow.client.wire import Answer, Request, host_of
from airflow_provider_workflow.hooks.connection import CONN_TYPE
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.plugin import airflow_server, errors, views
from airflow_provider_workflow.plugin.answers import LONGEST_SECONDS, Answers

T = TypeVar("T")

MOST_PAGES = 5
"""Pages of the service that one answer has at most."""
ENOUGH_SECONDS = LONGEST_SECONDS / 2
"""Once this has passed, no further page is requested: the answer has those that were read."""
LONGEST_CURSOR = 1_000
ANSWERS = Answers()
"""What was fetched of the service, by connection id and what follows it."""


class LimitedClient(WorkflowClient):
    """
    A client whose requests share one time limit, and which does not retry. Must be closed.

    :param settings: the checked connection.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            replace(settings, timeout=min(settings.timeout, LONGEST_SECONDS)),
            longest_wait=0.0,
            on_token=mask_secret,
            attempts=1,
            store=VariableStore(settings, mask_secret) if settings.grant == USER_GRANT else None,
            observe=self._observe,
        )
        self._ends_at = clock.monotonic() + LONGEST_SECONDS
        self.failed: Family | None = None
        """The family of the call that failed first; the calls that depend on it fail as well."""

    def exchange(self, request: Request) -> Answer:
        """
        Send one request, within what is left of the time limit.

        :raises TransportError: no complete answer was received, or no time is left.
        """
        left = self._ends_at - clock.monotonic()
        if left <= 0:
            text = f"no complete answer from {host_of(request.url)} within {LONGEST_SECONDS:g} s"
            raise TransportError(text, sent=False, timed_out=True)
        return super().exchange(replace(request, timeout=min(request.timeout, left)))

    def _observe(self, call: Call[Any], outcome: Any, _began_at: float) -> None:
        if isinstance(outcome, WorkflowError) and self.failed is None:
            self.failed = call.family


class _ServerHook(WorkflowHook):
    """A hook that finds connections as the API server does."""

    @classmethod
    def get_connection(cls, conn_id: str) -> Any:
        found = airflow_server.connection(conn_id)
        if found.conn_type != CONN_TYPE:
            # The secrets of a connection of another type must not be sent.
            raise errors.no_connection(conn_id, f"The connection {conn_id!r} is not of the type Workflow")
        return found


def check_connection(connection_id: str) -> None:
    """
    Make sure that there is such a connection of the type Workflow.

    :raises PageError: there is none.
    """
    try:
        _ServerHook.get_connection(connection_id)
    except AirflowNotFoundException:
        raise errors.no_connection(connection_id) from None


@contextmanager
def connected(connection_id: str) -> Iterator[LimitedClient]:
    """
    A client for one answer.

    :raises PageError: there is no such connection, or a call within the context failed.
    """
    client, settings = None, None
    try:
        settings = _ServerHook(connection_id).settings
        client = LimitedClient(settings)
        yield client
    except AirflowNotFoundException:
        raise errors.no_connection(connection_id) from None
    except WorkflowError as error:
        family = None if client is None else client.failed
        raise errors.of_service(error, family, settings) from None
    finally:
        if client is not None:
            client.close()


def call(connection_id: str, make: Callable[[], Call[T]]) -> T:
    """
    Make one call, which holds a slot, and forget the answers of this connection.

    :param make: returns the call.
    :raises PageError: it failed, or there is no free slot.
    """
    try:
        with ANSWERS.slot(), connected(connection_id) as client:
            return client.send(make())
    except ValueError as error:
        raise errors.invalid(str(error)) from None
    finally:
        ANSWERS.forget(connection_id)


@dataclass(frozen=True)
class Pages:
    """
    The pages that were read.

    :param items: of all pages, none twice, as ``views`` makes them.
    :param following: cursor of the next page; None if there is none.
    """

    items: list[dict[str, Any]]
    following: str | None

    def __len__(self) -> int:
        return len(self.items)


def list_inboxes(connection_id: str, name: str | None, cursor: str | None) -> Pages:
    """
    Up to 500 inboxes.

    :param name: only the inbox with this name.
    :param cursor: ``following`` of the previous pages.
    :raises PageError: a call failed, or the cursor is invalid.
    """
    offset = _offset(cursor)
    found: dict[str, dict[str, Any]] = {}
    with connected(connection_id) as client:
        for _ in _turns():
            page = client.send(api.list_inboxes(PAGE_SIZE, offset, name=name or None))
            found.update((inbox["id"], views.inbox_of(inbox)) for inbox in page["results"])
            offset += len(page["results"])
            if not page["results"] or not page.get("next"):
                return Pages(list(found.values()), None)
    return Pages(list(found.values()), str(offset))


def get_inbox(connection_id: str, inbox_id: str) -> Pages:
    """
    One inbox.

    :raises PageError: the call failed.
    """
    try:
        with connected(connection_id) as client:
            return Pages([views.inbox_of(client.send(api.get_inbox(inbox_id)))], None)
    except ValueError as error:
        raise errors.invalid(str(error)) from None


def list_messages(connection_id: str, inbox_id: str, cursor: str | None) -> Pages:
    """
    Up to 500 messages of an inbox, without payloads.

    :param cursor: ``following`` of the previous pages.
    :raises PageError: a call failed, or the cursor is invalid.
    """
    with connected(connection_id) as client:
        return _messages(client, inbox_id, cursor)


def read_inbox(connection_id: str, inbox_id: str) -> tuple[Pages | None, Pages]:
    """
    An inbox, and up to 500 of its messages; without the inbox if only the call for it failed.

    :raises PageError: the messages could not be read.
    """
    with connected(connection_id) as client:
        pages = _messages(client, inbox_id, None)
        with suppress(WorkflowError):
            return Pages([views.inbox_of(client.send(api.get_inbox(inbox_id)))], None), pages
    return None, pages


def _messages(client: LimitedClient, inbox_id: str, cursor: str | None) -> Pages:
    found: dict[Any, dict[str, Any]] = {}
    for _ in _turns():
        page = client.send(_page_of(inbox_id, cursor))
        found.update((each.get("id"), views.message_of(each, inbox_id)) for each in page["results"])
        before, cursor = cursor, views.text(api.next_cursor(page), LONGEST_CURSOR)
        if cursor is None or cursor == before:
            return Pages(list(found.values()), None)
    return Pages(list(found.values()), cursor)


def _page_of(inbox_id: str, cursor: str | None) -> Call[types.MessagePage]:
    try:
        return api.list_messages(inbox_id, cursor or None, PAGE_SIZE)
    except ValueError as error:
        raise errors.invalid(str(error)) from None


def _turns() -> Iterator[int]:
    """The numbers of the pages that may be read: at most 5, and none after half of the time limit."""
    began = clock.monotonic()
    for number in range(MOST_PAGES):
        if number and clock.monotonic() - began >= ENOUGH_SECONDS:
            return
        yield number


def _offset(cursor: str | None) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 9):
        raise errors.invalid("the cursor of the list of inboxes is not a number")
    return int(cursor)
