"""The view of the demo: the progress of each message."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.airflow_api import AirflowAPI

SHOWN = 14
OTHER_LINES = 11
"""Lines beside the messages: title, header and caption of the table, and what was said before."""
GLIMPSE = 48
"""Characters of a payload that are shown."""
ID = 8
"""Characters of a message id that the table shows; a line has all."""
STEPS = ("put", "leased", "run_started", "run_succeeded", "acknowledged")


@dataclass
class Row:
    """A message: a glimpse of its payload, and the times of its steps in epoch seconds, None for future ones.

    :param deliveries: how often it was leased.
    """

    put: float
    glimpse: str = ""
    deliveries: int = 0
    leased: float | None = None
    run_started: float | None = None
    run_succeeded: float | None = None
    acknowledged: float | None = None

    def done(self) -> bool:
        return self.run_succeeded is not None and self.acknowledged is not None

    def seconds(self, step: str) -> float | None:
        """Seconds from put to a step; None for a future step."""
        moment = getattr(self, step)
        return None if moment is None else max(0.0, moment - self.put)


class Messages:
    """All messages of an inbox and their runs.

    :param service: the emulator.
    :param api: API of Airflow.
    """

    def __init__(self, service: EmulatorServer, api: AirflowAPI, inbox: str, handler: str) -> None:
        self.rows: dict[str, Row] = {}
        self._service, self._api, self._inbox, self._handler = service, api, inbox, handler

    def put(self, *payloads: Any) -> None:
        """Put messages into the inbox."""
        now = self._service.store.clock.now()
        ids = self._service.put(self._inbox, *payloads)
        self.rows |= {
            message_id: Row(now, glimpse(payload)) for message_id, payload in zip(ids, payloads, strict=True)
        }

    def look(self) -> None:
        """Update all rows from the service and from Airflow."""
        runs = {run["dag_run_id"]: run for run in self._api.dag_runs(self._handler)}
        summary = self._service.summary(self._inbox)
        for message in summary["messages"]:
            row = self.rows.setdefault(message["id"], Row(message["created_at"]))
            row.leased, row.acknowledged = message["leased_at"], message["acked_at"]
            row.deliveries = message["lease_count"]
            run = runs.get(run_id_of(message["id"], summary["inbox"]["id"]))
            if run is not None:
                row.run_started = _epoch(run["queued_at"])
                row.run_succeeded = _epoch(run["end_date"]) if run["state"] == "success" else None

    def all_done(self) -> bool:
        return bool(self.rows) and all(row.done() for row in self.rows.values())

    def totals(self) -> str:
        """The numbers of messages by step, in one line."""
        numbers = (sum(getattr(row, step) is not None for row in self.rows.values()) for step in STEPS)
        return ", ".join(
            f"{step.replace('_', ' ')} {number}" for step, number in zip(STEPS, numbers, strict=True)
        )


Show = Callable[[Messages, str], None]
"""Shows messages, and a notice below them."""


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
            yield _Lines(self).show
            return
        with Live(console=self._console, auto_refresh=False) as live:
            rows = max(1, min(SHOWN, self._console.height - OTHER_LINES))
            yield lambda messages, notice: live.update(table(messages, url, notice, rows), refresh=True)


class _Lines:
    """A line for each step of each message, once; and for each notice, whatever its seconds."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._seen: set[tuple[str, str, float]] = set()
        self._notice = ""

    def show(self, messages: Messages, notice: str) -> None:
        for message_id, row in messages.rows.items():
            for step in STEPS:
                moment, seconds = getattr(row, step), row.seconds(step)
                if seconds is not None and (message_id, step, moment) not in self._seen:
                    self._seen.add((message_id, step, moment))
                    again = " again" if step == "leased" and row.deliveries > 1 else ""
                    name = step.replace("_", " ") + again
                    self._screen.say(f"{message_id}  {name:13}  +{seconds:6.1f} s  {row.glimpse}")
        what = notice.rpartition(" in ")[0]
        if what != self._notice:
            self._notice = what
            if notice:
                self._screen.say(notice)


def table(messages: Messages, url: str, notice: str = "", rows: int = SHOWN) -> Table:
    """A table of the unfinished and the latest messages, with the seconds from put to each step.

    :param url: URL of the page Inboxes, for the title.
    :param rows: maximum number of messages.
    """
    shown = Table(
        title=f"Inboxes in Airflow: {url}",
        caption="\n".join([messages.totals(), "Ctrl-C stops", notice]),
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    shown.add_column("message", style="cyan", no_wrap=True)
    shown.add_column("payload")  # the only column that becomes narrower in a narrow terminal
    for step in STEPS[1:]:
        shown.add_column(step.replace("_", "\n"), justify="right", no_wrap=True)
    for message_id, row in chosen(messages.rows, rows).items():
        cells = [_cell(row.seconds(step)) for step in STEPS[1:]]
        if row.deliveries > 1:
            cells[0] = f"{row.deliveries}x {cells[0]}"
        payload = Text(row.glimpse, no_wrap=True, overflow="ellipsis")
        shown.add_row(message_id[:ID], payload, *cells, style="green" if row.done() else "")
    return shown


def chosen(rows: dict[str, Row], maximum: int = SHOWN) -> dict[str, Row]:
    """The rows that the table has, in their order: the unfinished ones, then the latest others."""
    done_first = sorted(rows, key=lambda message_id: not rows[message_id].done())
    kept = set(done_first[-maximum:])
    return {message_id: row for message_id, row in rows.items() if message_id in kept}


def glimpse(payload: Any) -> str:
    """The beginning of a payload, in one printable line."""
    return plain(json.dumps(payload, ensure_ascii=False), GLIMPSE)


def _cell(seconds: float | None) -> str:
    return "" if seconds is None else f"+{seconds:.1f} s"


def _epoch(moment: str | None) -> float | None:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() if moment else None
