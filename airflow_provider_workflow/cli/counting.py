"""
How many messages inboxes hold. The service counts none: this lists them, a bounded number of pages.

What is counted in part is marked so: the list of an inbox has no order that anybody may rely on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_workflow import clock
from airflow_provider_workflow.cli import output
from airflow_provider_workflow.client import inboxes, types
from airflow_provider_workflow.client.errors import NotFoundError, WorkflowError
from airflow_provider_workflow.client.inboxes import DELETING, FAILED

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.dispatcher import Dispatcher
    from airflow_provider_workflow.dispatch.results import Counted, Tally
    from airflow_provider_workflow.hooks.workflow import WorkflowHook


PAGES = 5
"""Requests for the messages of one inbox, at most; the service's pages hold 100."""
MOST_INBOXES = 50
"""Inboxes of a list whose messages are counted."""
COLUMNS = ("waiting", "leased", "quarantined", "oldest")


@dataclass(frozen=True)
class MessageCounts:
    """
    The messages of an inbox by their status, as far as they were listed.

    :param oldest: when the oldest that waits or is leased was created, as the service wrote it.
    :param complete: whether there are no others.
    """

    waiting: int
    leased: int
    quarantined: int
    oldest: str | None
    complete: bool

    def result(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "waiting": self.waiting,
            "leased": self.leased,
            "quarantined": self.quarantined,
            "oldest_created_at": self.oldest,
            "complete": self.complete,
        }

    def row(self) -> output.Row:
        """For people: ``12+`` where there may be more, and an age instead of a time."""
        more = "" if self.complete else "+"
        created = _time_of(self.oldest)
        age = output.duration(clock.now() - created.timestamp()) if created else None
        found = (*(f"{number}{more}" for number in (self.waiting, self.leased, self.quarantined)), age)
        return dict(zip(COLUMNS, found, strict=True))


NOT_COUNTED: output.Row = dict.fromkeys(COLUMNS)


def count_messages(hook: WorkflowHook, inbox_id: str) -> MessageCounts:
    """
    Count the messages of an inbox in at most 5 requests.

    :raises WorkflowError: the service does not list them now; this does not wait for it.
    """
    messages, more = hook.run_once(inboxes.first_messages(inbox_id, PAGES))
    statuses = [message.get("status") for message in messages]
    live = (message for message in messages if message.get("status") in ("available", "leased"))
    created = (message.get("created_at") for message in live)
    known = [(when, text) for text in created if (when := _time_of(text)) is not None]
    return MessageCounts(
        waiting=statuses.count("available"),
        leased=statuses.count("leased"),
        quarantined=statuses.count("quarantined"),
        oldest=min(known)[1] if known else None,
        complete=not more,
    )


def counts_of(hook: WorkflowHook, found: Sequence[types.Inbox]) -> list[MessageCounts | None]:
    """
    Count the messages of each of these inboxes; None where that is not possible.

    Counting is an extra: a service that does not list messages now is a note to people, and the end of it.
    """
    counts: list[MessageCounts | None] = []
    for inbox in found[:MOST_INBOXES]:
        try:
            there = inbox["status"] not in (DELETING, FAILED)
            counts.append(count_messages(hook, inbox["id"]) if there else None)
        except NotFoundError:  # deleted meanwhile
            counts.append(None)
        except WorkflowError as error:
            output.note(f"Messages of {_number(len(found) - len(counts))} were not counted: {error}")
            return counts + [None] * (len(found) - len(counts))
    if left := len(found) - len(counts):
        output.note(
            f"Messages of {_number(left)} were not counted, only those of the first {MOST_INBOXES};"
            " 'inbox show' counts those of one."
        )
    return counts + [None] * left


def _number(inboxes: int) -> str:
    return "1 inbox" if inboxes == 1 else f"{inboxes} inboxes"


def _time_of(text: Any) -> datetime | None:
    """A time of the service's; None where it is none, or has no time zone."""
    try:
        time = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return time if time.tzinfo else None


REFRESHES = 4
"""A second."""


@contextmanager
def progress(dispatcher: Dispatcher) -> Iterator[None]:
    """
    Show how far a dispatcher is; nothing where stderr is no terminal.

    :raises WorkflowError: there is no such inbox, or the service cannot be used.
    """
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner

    whole = _whole(_waiting(dispatcher), dispatcher.limits.max_messages)
    spinner = Spinner("line")

    def line() -> Spinner:
        spinner.update(text=_told(dispatcher.tally, whole))
        return spinner

    console = Console(stderr=True, highlight=False, markup=False)
    with Live(console=console, get_renderable=line, refresh_per_second=REFRESHES, transient=True) as live:
        live.refresh()
        yield


def _waiting(dispatcher: Dispatcher) -> MessageCounts | None:
    inbox_id = dispatcher.inbox_id
    try:
        return count_messages(dispatcher.hook, inbox_id)
    except WorkflowError:  # the numbers are an extra; leasing reports what is wrong
        return None


def _whole(counts: MessageCounts | None, most: int | None) -> str:
    """How many messages are to be dispatched, as far as that is known; more may arrive meanwhile."""
    if counts is None:
        return "" if most is None else f" of at most {most}"
    if most is not None and most <= counts.waiting:
        return f" of {most}"
    return f" of {counts.waiting}{'' if counts.complete else '+'}"


def _told(tally: Tally, whole: str) -> str:
    numbers = ", ".join(f"{counted['count']} {name}" for name, counted in outcomes(tally))
    return f"{tally.handled}{whole} messages: {numbers}"


def outcomes(tally: Tally) -> list[tuple[str, Counted]]:
    """What became of messages, by the names that a result has for it."""
    return [(name, tally.result[name]) for name in ("started", "existing", "refused")]
