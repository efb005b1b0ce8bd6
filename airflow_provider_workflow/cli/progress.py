"""What a drain shows at a terminal while it goes on: one line of numbers, on stderr, gone at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider_workflow.cli.counting import MessageCounts, count_messages
from airflow_provider_workflow.client.errors import WorkflowError

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch import Dispatcher
    from airflow_provider_workflow.tally import Counted, Tally

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
