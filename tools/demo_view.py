"""The view of the demo: the progress of each message."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from airflow_provider_workflow.text import escaped
from tools.demo_messages import STEPS, Messages, Row

SHOWN = 14
OTHER_LINES = 10
"""Lines beside the messages: title, header and caption of the table, and what was said before."""
GLIMPSE = 48
"""Characters of a payload that are shown."""
ID = 8
"""Characters of a message id that the table shows; a line has all."""

Show = Callable[[Messages], None]


class Screen:
    """The output: a live table in a terminal, a line per step in a file."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)

    def say(self, text: str) -> None:
        """Print a line; above the table, if that is shown. In a file it is not wrapped."""
        self._console.print(text, markup=False, soft_wrap=not self._console.is_terminal)

    @contextmanager
    def live(self, url: str) -> Iterator[Show]:
        """Show the progress of messages."""
        if not self._console.is_terminal:
            yield self._lines()
            return
        with Live(console=self._console, auto_refresh=False) as live:
            rows = max(1, min(SHOWN, self._console.height - OTHER_LINES))
            yield lambda messages: live.update(table(messages, url, rows), refresh=True)

    def _lines(self) -> Show:
        """A line for each step of each message, once."""
        shown_steps: set[tuple[str, str, float]] = set()

        def show(messages: Messages) -> None:
            for message_id, row in messages.rows.items():
                for step in STEPS:
                    moment, seconds = getattr(row, step), row.seconds(step)
                    if seconds is None or (message_id, step, moment) in shown_steps:
                        continue
                    shown_steps.add((message_id, step, moment))
                    name = step.replace("_", " ")
                    if step == "leased" and row.deliveries > 1:
                        name = "leased again"
                    self.say(f"{message_id}  {name:13}  +{seconds:6.1f} s  {glimpse(row.payload)}")

        return show


def table(messages: Messages, url: str, rows: int = SHOWN) -> Table:
    """A table of the unfinished and the latest messages, with the seconds from put to each step.

    :param url: URL of the page Inboxes, for the title.
    :param rows: maximum number of messages.
    """
    grid = Table(
        title=f"Inboxes in Airflow: {url}",
        caption=f"{messages.totals()}\nCtrl-C stops",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    grid.add_column("message", style="cyan", no_wrap=True)
    grid.add_column("payload")  # the only column that becomes narrower in a narrow terminal
    for step in STEPS[1:]:
        grid.add_column(step.replace("_", "\n"), justify="right", no_wrap=True)
    for message_id, row in rows_to_show(messages.rows, rows).items():
        cells = ["" if (seconds := row.seconds(step)) is None else f"+{seconds:.1f} s" for step in STEPS[1:]]
        if row.deliveries > 1:
            cells[0] = f"{row.deliveries}x {cells[0]}"
        payload = Text(glimpse(row.payload), no_wrap=True, overflow="ellipsis")
        grid.add_row(message_id[:ID], payload, *cells, style="green" if row.is_done else "")
    return grid


def rows_to_show(rows: dict[str, Row], maximum: int = SHOWN) -> dict[str, Row]:
    """The rows that the table has, in their order: the unfinished ones, then the latest others."""
    done_first = sorted(rows, key=lambda message_id: not rows[message_id].is_done)
    last = set(done_first[-maximum:])
    return {message_id: row for message_id, row in rows.items() if message_id in last}


def glimpse(payload: Any) -> str:
    """The beginning of a payload, in one printable line."""
    return escaped(json.dumps(payload, ensure_ascii=False), GLIMPSE)
