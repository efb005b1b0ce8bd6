"""
Counts the messages of inboxes. The service has no such call, so this lists them, up to a number of pages.

A count that is incomplete is marked: the order of a list is not published.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock, types
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.client import inboxes
from airflow_provider_workflow.client.errors import NotFoundError, WorkflowError
from airflow_provider_workflow.types import DELETING, FAILED

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.dispatch.results import Counts
    from airflow_provider_workflow.hooks.workflow import WorkflowHook


PAGES = 5
"""Maximum number of pages that are read of one inbox; a page holds 100 messages."""
MOST_INBOXES = 50
"""The messages of no more inboxes than these are counted."""
COLUMNS = ("waiting", "leased", "quarantined", "oldest")


@dataclass(frozen=True)
class MessageCounts:
    """
    Numbers of messages of an inbox by status, among those that were listed.

    :param oldest: ``created_at`` of the oldest message that is available or leased.
    :param complete: whether all messages were listed.
    """

    waiting: int
    leased: int
    quarantined: int
    oldest: str | None
    complete: bool

    def result(self) -> dict[str, Any]:
        """The counts for JSON and YAML output."""
        return {
            "waiting": self.waiting,
            "leased": self.leased,
            "quarantined": self.quarantined,
            "oldest_created_at": self.oldest,
            "complete": self.complete,
        }

    def row(self) -> output.Row:
        """The counts for a table: ``12+`` if there may be more, and an age instead of a time."""
        more = "" if self.complete else "+"
        created = clock.moment_of(self.oldest)
        age = output.duration(clock.now() - created.timestamp()) if created else None
        found = (*(f"{number}{more}" for number in (self.waiting, self.leased, self.quarantined)), age)
        return dict(zip(COLUMNS, found, strict=True))


NOT_COUNTED: output.Row = dict.fromkeys(COLUMNS)


def count_messages(hook: WorkflowHook, inbox_id: str) -> MessageCounts:
    """
    Count the messages of an inbox with at most 5 requests.

    :raises WorkflowError: the service rejects a request; there is no retry.
    """
    messages, more = hook.run_once(inboxes.first_messages(inbox_id, PAGES))
    statuses = [message.get("status") for message in messages]
    live = (message for message in messages if message.get("status") in ("available", "leased"))
    created = (message.get("created_at") for message in live)
    known = [(when, text) for text in created if (when := clock.moment_of(text)) is not None]
    return MessageCounts(
        waiting=statuses.count("available"),
        leased=statuses.count("leased"),
        quarantined=statuses.count("quarantined"),
        oldest=min(known)[1] if known else None,
        complete=not more,
    )


def counts_of(hook: WorkflowHook, found: Sequence[types.Inbox]) -> list[MessageCounts | None]:
    """
    Count the messages of inboxes; None for an inbox whose messages were not counted.

    An error of the service is printed as a note and ends the counting; it is not raised.
    """
    counts: list[MessageCounts | None] = []
    for inbox in found[:MOST_INBOXES]:
        try:
            listable = inbox["status"] not in (DELETING, FAILED)
            counts.append(count_messages(hook, inbox["id"]) if listable else None)
        except NotFoundError:  # deleted meanwhile
            counts.append(None)
        except WorkflowError as error:
            output.note(f"Messages of {_number(len(found) - len(counts))} were not counted: {error}")
            return counts + [None] * (len(found) - len(counts))
    if left := len(found) - len(counts):
        output.note(
            f"Messages of {_number(left)} were not counted, only those of the first {MOST_INBOXES};"
            " 'inbox show' counts those of one inbox."
        )
    return counts + [None] * left


def _number(inboxes: int) -> str:
    return "1 inbox" if inboxes == 1 else f"{inboxes} inboxes"


REFRESHES_PER_SECOND = 4


@contextmanager
def progress(dispatcher: Dispatcher) -> Iterator[None]:
    """
    Show the progress of a dispatcher on stderr, if that is a terminal.

    :raises WorkflowError: there is no such inbox, or the service cannot be used.
    """
    if not sys.stderr.isatty():
        yield
        return
    total = _total_text(_waiting(dispatcher), dispatcher.limits.max_messages)
    with live(lambda: _progress_text(dispatcher.counts, total)):
        yield


@contextmanager
def live(text: Callable[[], str]) -> Iterator[None]:
    """
    Show a line on stderr, if that is a terminal, and renew it several times per second.

    :param text: returns the line.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner

    spinner = Spinner("line")

    def line() -> Spinner:
        spinner.update(text=text())
        return spinner

    console = Console(stderr=True, highlight=False, markup=False)
    with Live(
        console=console, get_renderable=line, refresh_per_second=REFRESHES_PER_SECOND, transient=True
    ) as shown:
        shown.refresh()
        yield


def _waiting(dispatcher: Dispatcher) -> MessageCounts | None:
    hook = dispatcher.hook
    try:
        return count_messages(hook, hook.get_inbox(dispatcher.inbox)["id"])
    except WorkflowError:  # progress is optional; leasing reports the error
        return None


def _total_text(counts: MessageCounts | None, most: int | None) -> str:
    """The expected number of messages, as text; empty if it is not known. More may arrive meanwhile."""
    if counts is None:
        return "" if most is None else f" of at most {most}"
    if most is not None and most <= counts.waiting:
        return f" of {most}"
    return f" of {counts.waiting}{'' if counts.complete else '+'}"


def _progress_text(counts: Counts, total: str) -> str:
    numbers = ", ".join(f"{counted['count']} {name}" for name, counted in counts.by_outcome().items())
    return f"{counts.handled}{total} messages: {numbers}"


SHOWN_IDS = 3


def first_ids(counted: Mapping[str, Any]) -> str:
    """
    The first ids of an outcome, for a table.

    :param counted: a ``Counted``: a number, and the first ids.
    """
    shown = counted["ids"][:SHOWN_IDS]
    return ", ".join([*shown, "..."] if counted["count"] > len(shown) else shown)
