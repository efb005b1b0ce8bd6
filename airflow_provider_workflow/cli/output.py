"""
What a command prints: its result alone on stdout, everything else on stderr.

No secret that Airflow knows of is printed, and nothing that a terminal would take for an instruction.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import Any, TextIO

from airflow_provider_workflow.client.wire import plain

Row = Mapping[str, Any]

MASK = "***"
"""As Airflow writes it."""
LONGEST_CELL = 300
"""Characters of a value that a table shows."""
LONGEST_NOTE = 3000
UNBROKEN = 60
"""A text of a table that is no longer than this stays in one line."""
NARROWEST = 30
"""Characters of the column of a longer one, at least: less is hard to read."""
SEPARATOR = 3
"""Characters between two columns of a table."""

_results: TextIO | None = None
_no_secrets: set[str] = set()


def show(form: str, result: Any, *tables: Sequence[Row]) -> None:
    """
    Print the result of a command.

    :param form: ``json``, ``yaml``, ``table`` or ``plain``; the first two for scripts.
    :param result: what scripts get, of plain JSON.
    :param tables: what people get: rows with the same columns in each; none where there is nothing to see.
    """
    if form in ("json", "yaml"):
        write(_for_scripts(form, _hidden(result)))
    elif tables:
        write("\n\n".join(_table(form, rows) for rows in tables))


def _for_scripts(form: str, result: Any) -> str:
    try:
        if form == "json":
            return _ascii(json.dumps(result, indent=2))
        import yaml  # type: ignore[import-untyped]

        return str(yaml.safe_dump(result, sort_keys=False, width=sys.maxsize)).rstrip("\n")
    except RecursionError:
        # A payload may be nested deeper than these can write; this is JSON, and YAML as well.
        return _ascii(json.dumps(result))


def _ascii(text: str) -> str:
    """JSON is escaped beyond ASCII, so that no character reaches a terminal as it came; but for this one."""
    return text.replace("\x7f", "\\u007f")


def fields(row: Row) -> list[Row]:
    """One thing as a table that has a line for each of its fields."""
    return [{"field": name, "value": value} for name, value in row.items()]


def write(text: str) -> None:
    """
    Print a line on stdout as it is.

    :raises BrokenPipeError: nobody reads it any more.
    """
    results = _results or sys.stdout
    encoding = results.encoding or "utf-8"
    results.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    results.flush()


def note(text: str) -> None:
    """Tell people something that is no result, in one line on stderr."""
    line = plain(hidden(text), LONGEST_NOTE)
    print(line.encode("ascii", "backslashreplace").decode() if not _takes(line) else line, file=sys.stderr)


def duration(seconds: float) -> str:
    """A length of time for people, rounded down to its largest unit, such as ``3 min``; 0 s at least."""
    units = ((86400, "d"), (3600, "h"), (60, "min"))
    length, unit = next((each for each in units if seconds >= each[0]), (1, "s"))
    return f"{max(0, int(seconds // length))} {unit}"


def no_secret(text: str) -> None:
    """Print this text although Airflow masks it: the name of a connection's field makes it look secret."""
    if text:
        _no_secrets.add(text)


def hidden(text: str) -> str:
    """A text without the secrets that Airflow has been told of in this process."""
    masker = sys.modules.get("airflow.sdk._shared.secrets_masker")
    if masker is None:  # then nothing has told it of a secret
        return text
    if not _no_secrets:
        return str(masker.redact(text))
    parts = re.split(f"({'|'.join(map(re.escape, sorted(_no_secrets)))})", text)
    return "".join(part if place % 2 else str(masker.redact(part)) for place, part in enumerate(parts))


def _hidden(value: Any) -> Any:
    """A copy without secrets; made without recursion, as a payload may be nested deep."""
    copy = [value]
    waiting: list[tuple[Any, Any]] = [(copy, 0)]
    while waiting:
        holder, place = waiting.pop()
        item = holder[place]
        if isinstance(item, str):
            holder[place] = hidden(item)
        elif isinstance(item, Mapping):
            holder[place] = inner = dict(item)
            waiting += ((inner, name) for name in inner)
        elif isinstance(item, (list, tuple)):
            holder[place] = items = list(item)
            waiting += ((items, number) for number in range(len(items)))
    return copy[0]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return plain(hidden(text), LONGEST_CELL)


def _table(form: str, rows: Sequence[Row]) -> str:
    cells = [{name: _cell(value) for name, value in row.items()} for row in rows]
    if form == "plain" and cells:
        from tabulate import tabulate  # type: ignore[import-untyped]

        # As Airflow's console has it, but for names such as 1e3, which it takes for numbers.
        text = str(tabulate(cells, headers="keys", tablefmt="plain", disable_numparse=True))
    else:
        text = _printed(cells)
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def _printed(cells: Sequence[Row]) -> str:
    """A table as Airflow's console prints it, but for one thing: it never breaks a word, so never an id."""
    from airflow_provider_workflow import airflow_internals

    page = _Page(_results or sys.stdout)
    with redirect_stdout(page):
        console = airflow_internals.console()
        if not cells:
            console.print("No data found")
            return page.getvalue()
        columns = {name: [name, *(row[name] for row in cells)] for name in cells[0]}
        widths = _widths(list(columns.values()), console.width)
        table = airflow_internals.table()
        for name, width in zip(columns, widths, strict=True):
            table.add_column(name, width=width)
        for row in cells:
            table.add_row(*row.values())
        # A line that is longer than the terminal is the terminal's to wrap, which copies it whole.
        console.width = sum(widths) + SEPARATOR * len(widths)
        console.print(table)
    return page.getvalue()


def _widths(columns: Sequence[Sequence[str]], available: int) -> list[int]:
    """
    The width of each column: as wide as its longest text where there is room, and always wide enough
    for its longest word, and for the whole of a text of up to 60 characters.
    """
    from rich.cells import cell_len

    wanted = [max(map(cell_len, texts)) for texts in columns]
    widths = [max(_least(text) for text in texts) for texts in columns]
    left = available - sum(widths) - SEPARATOR * (len(widths) - 1)
    for place, width in enumerate(wanted):
        more = max(0, min(left, width - widths[place]))
        widths[place] += more
        left -= more
    return widths


def _least(text: str) -> int:
    from rich.cells import cell_len

    length = cell_len(text)
    return length if length <= UNBROKEN else max([NARROWEST, *map(cell_len, text.split())])


class _Page(io.StringIO):
    """What Airflow's console prints on; as wide and as colourful as where it ends up."""

    def __init__(self, goes_to: TextIO) -> None:
        super().__init__()
        self._goes_to = goes_to

    def isatty(self) -> bool:
        return self._goes_to.isatty()


def _takes(line: str) -> bool:
    try:
        line.encode(sys.stderr.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def results_alone_on_stdout() -> Iterator[None]:
    """
    Keep stdout for results; whatever else is written there meanwhile goes to stderr.

    Airflow's loggers hold on to the stdout that they were made with, so its file descriptor is turned too.
    """
    global _results
    before, (_results, undo) = _results, _turn_aside(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _results = before
        undo()


def _turn_aside(stdout: TextIO) -> tuple[TextIO, Callable[[], None]]:
    """Let the descriptor of stdout lead to stderr; return where it led before, and how to undo it."""
    try:
        number, stderr = stdout.fileno(), sys.stderr.fileno()
    except (OSError, ValueError):  # no files: somebody collects what is printed
        return stdout, lambda: None
    stdout.flush()
    kept = os.dup(number)
    os.dup2(stderr, number)
    results = open(kept, "w", encoding=stdout.encoding)  # noqa: SIM115 closed by undo

    def undo() -> None:
        stdout.flush()
        os.dup2(kept, number)
        with suppress(BrokenPipeError):
            results.close()

    return results, undo


LOG_LEVEL = "AIRFLOW__LOGGING__LOGGING_LEVEL"
"""Set to DEBUG, it shows everything, and where an error came from."""


def debugging() -> bool:
    """Whether somebody wants to see everything."""
    return os.environ.get(LOG_LEVEL, "").upper() == "DEBUG"


@contextmanager
def quietly() -> Iterator[None]:
    """Keep INFO and what is meant for Airflow's own developers from the terminal."""
    if debugging():
        yield
        return
    with ExitStack() as afterwards:
        if "airflow" in sys.modules:
            _quieten_structlog(afterwards)
        elif LOG_LEVEL not in os.environ:
            os.environ[LOG_LEVEL] = "WARNING"
            afterwards.callback(os.environ.pop, LOG_LEVEL, None)
        afterwards.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.INFO)
        afterwards.enter_context(warnings.catch_warnings())
        hush_warnings()
        yield


def hush_warnings() -> None:
    """To be said again once Airflow is loaded: its configuration turns some warnings on."""
    if not debugging():
        warnings.simplefilter("ignore")


def _quieten_structlog(afterwards: ExitStack) -> None:
    """Airflow has configured its own loggers already, which those of Python's ``logging`` do not govern."""
    import structlog

    def from_warnings_on(_: Any, method: str, event: Any) -> Any:
        if method in ("debug", "info"):
            raise structlog.DropEvent
        return event

    # In place, as loggers that were used before hold on to this list.
    processors = structlog.get_config()["processors"]
    processors.insert(0, from_warnings_on)
    afterwards.callback(processors.remove, from_warnings_on)
