"""The view of the demo: the progress of each message."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.table import Table

from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tools.airflow_api import AirflowAPI

SHOWN = 16


@dataclass
class Row:
    """The times of a message's steps, in epoch seconds; None for future steps."""

    put: float
    leased: float | None = None
    run_started: float | None = None
    run_succeeded: float | None = None
    acknowledged: float | None = None

    def done(self) -> bool:
        return self.run_succeeded is not None and self.acknowledged is not None


STEPS = [field.name for field in fields(Row)]


class Messages:
    """All messages of an inbox and their runs.

    :param service: the emulator.
    :param api: API of Airflow.
    """

    def __init__(self, service: EmulatorServer, api: AirflowAPI, inbox: str, handler: str) -> None:
        self.rows: dict[str, Row] = {}
        self._service, self._api, self._inbox, self._handler = service, api, inbox, handler

    def look(self) -> None:
        """Update all rows from the service and from Airflow."""
        runs = {run["dag_run_id"]: run for run in self._api.dag_runs(self._handler)}
        summary = self._service.summary(self._inbox)
        for message in summary["messages"]:
            row = self.rows.setdefault(message["id"], Row(put=message["put_at"]))
            row.leased, row.acknowledged = message["leased_at"], message["acked_at"]
            run = runs.get(run_id_of(message["id"], summary["inbox"]["id"]))
            if run is not None:
                row.run_started = _epoch(run["queued_at"])
                row.run_succeeded = _epoch(run["end_date"]) if run["state"] == "success" else None

    def all_done(self) -> bool:
        return bool(self.rows) and all(row.done() for row in self.rows.values())

    def totals(self) -> str:
        """The numbers of messages by step, in one line."""
        numbers = (sum(getattr(row, step) is not None for row in self.rows.values()) for step in STEPS)
        return "messages " + ", ".join(
            f"{step.replace('_', ' ')}: {number}" for step, number in zip(STEPS, numbers, strict=True)
        )


class Screen:
    """The output: a live table in a terminal, a line per step in a file."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def live(self, url: str) -> Iterator[Callable[[Messages], None]]:
        """Show the progress of messages."""
        if not self._console.is_terminal:
            seen: set[tuple[str, str]] = set()
            yield lambda messages: self._lines(messages, seen)
            return
        with Live(console=self._console, auto_refresh=False) as live:
            yield lambda messages: live.update(table(messages, url), refresh=True)

    def _lines(self, messages: Messages, seen: set[tuple[str, str]]) -> None:
        for message_id, row in messages.rows.items():
            for step in STEPS:
                moment = getattr(row, step)
                if moment is not None and (message_id, step) not in seen:
                    seen.add((message_id, step))
                    self.say(f"{message_id}  {step.replace('_', ' '):13}  +{moment - row.put:6.1f} s")


def table(messages: Messages, url: str) -> Table:
    """A table of the latest messages and the times of their steps."""
    shown = Table(title=f"Airflow's page: {url}    (Ctrl-C stops)", caption=messages.totals())
    shown.add_column("message", style="cyan", no_wrap=True)
    shown.add_column("put", style="dim")
    for step in STEPS[1:]:
        shown.add_column(step.replace("_", " "), justify="right")
    for message_id, row in list(messages.rows.items())[-SHOWN:]:
        moments = (getattr(row, step) for step in STEPS[1:])
        put = time.strftime("%H:%M:%S", time.localtime(row.put))
        cells = ("" if moment is None else f"+{max(0.0, moment - row.put):.1f} s" for moment in moments)
        shown.add_row(message_id, put, *cells, style="green" if row.done() else "")
    return shown


def _epoch(moment: str | None) -> float | None:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() if moment else None
