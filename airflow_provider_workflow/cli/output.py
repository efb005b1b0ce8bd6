"""
Prints the result of a command on stdout, and everything else on stderr.

Secrets that Airflow masks are masked here too; control characters are escaped.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import Any, TextIO

from airflow_provider_workflow.client import deep_json
from airflow_provider_workflow.client.wire import plain

Row = Mapping[str, Any]

MASK = "***"
"""The same as Airflow's."""
LONGEST_CELL = 300
"""Maximum characters of a value in a table."""
LONGEST_NOTE = 3000
LONGEST_UNWRAPPED = 60
"""Characters; a shorter value of a table is not wrapped."""
LEAST_WRAPPED_WIDTH = 30
"""Minimum width of a column whose values are wrapped; less is hard to read."""
SEPARATOR = 3
"""Characters between two columns."""

_results: TextIO | None = None
_unmasked: set[str] = set()


def show(form: str, result: Any, *tables: Sequence[Row]) -> None:
    """
    Print the result of a command.

    :param form: ``json``, ``yaml``, ``table`` or ``plain``.
    :param result: printed as JSON or YAML; consists of JSON values.
    :param tables: printed otherwise; the rows of a table have the same columns. None prints nothing.
    """
    if form in ("json", "yaml"):
        write(_for_scripts(form, _masked(result)))
    elif tables:
        write("\n\n".join(_table(form, rows) for rows in tables))


def _for_scripts(form: str, result: Any) -> str:
    try:
        if form == "json":
            return _ascii(deep_json.dumped(result, indent=2))
        import yaml  # type: ignore[import-untyped]

        return str(yaml.safe_dump(result, sort_keys=False, width=sys.maxsize)).rstrip("\n")
    except RecursionError:
        # A payload may be nested too deep for these. Compact JSON is valid YAML too.
        return _ascii(deep_json.dumped(result))


def _ascii(text: str) -> str:
    """Escape DEL, the one control character that JSON does not escape, so that none reaches a terminal."""
    return text.replace("\x7f", "\\u007f")


def fields(row: Row) -> list[Row]:
    """A table with one row for each field."""
    return [{"field": name, "value": value} for name, value in row.items()]


def write(text: str) -> None:
    """
    Print a line on stdout, unmasked.

    :raises BrokenPipeError: the reader has closed the pipe.
    """
    results = _results or sys.stdout
    encoding = results.encoding or "utf-8"
    results.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    results.flush()


def note(text: str) -> None:
    """Print a line on stderr, with secrets masked."""
    line = plain(masked(text), LONGEST_NOTE)
    print(
        line.encode("ascii", "backslashreplace").decode() if not _is_encodable(line) else line,
        file=sys.stderr,
    )


def duration(seconds: float) -> str:
    """Seconds in the largest fitting unit, rounded down, such as ``3 min``; ``0 s`` if negative."""
    units = ((86400, "d"), (3600, "h"), (60, "min"))
    length, unit = next((each for each in units if seconds >= each[0]), (1, "s"))
    return f"{max(0, int(seconds // length))} {unit}"


def exempt_from_masking(text: str) -> None:
    """Print a string unmasked although Airflow masks it, because of the name of a connection's field."""
    if text:
        _unmasked.add(text)


def masked(text: str) -> str:
    """A string with the secrets masked that are registered with Airflow in this process."""
    masker = sys.modules.get("airflow.sdk._shared.secrets_masker")
    if masker is None:  # not loaded, so no secret is registered
        return text
    if not _unmasked:
        return str(masker.redact(text))
    parts = re.split(f"({'|'.join(map(re.escape, sorted(_unmasked)))})", text)
    return "".join(part if place % 2 else str(masker.redact(part)) for place, part in enumerate(parts))


def _masked(value: Any) -> Any:
    """A copy with secrets masked; made without recursion, as a payload may be nested deep."""
    copy = [value]
    waiting: list[tuple[Any, Any]] = [(copy, 0)]
    while waiting:
        holder, place = waiting.pop()
        item = holder[place]
        if isinstance(item, str):
            holder[place] = masked(item)
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
    text = value if isinstance(value, str) else deep_json.dumped(value, ensure_ascii=False)
    return plain(masked(text), LONGEST_CELL)


def _table(form: str, rows: Sequence[Row]) -> str:
    cells = [{name: _cell(value) for name, value in row.items()} for row in rows]
    if form == "plain" and cells:
        from tabulate import tabulate  # type: ignore[import-untyped]

        # As Airflow's console does, but without parsing names such as 1e3 as numbers.
        text = str(tabulate(cells, headers="keys", tablefmt="plain", disable_numparse=True))
    else:
        text = _printed(cells)
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def _printed(cells: Sequence[Row]) -> str:
    """A table as Airflow's console prints it, except that words, and so ids, are never broken."""
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
        # The terminal wraps longer lines itself, so that copying keeps them whole.
        console.width = sum(widths) + SEPARATOR * len(widths)
        console.print(table)
    return page.getvalue()


def _widths(columns: Sequence[Sequence[str]], available: int) -> list[int]:
    """
    The width of each column: that of its longest value if the terminal is wide enough, and at least that
    of its longest word and of each value of up to 60 characters.
    """
    from rich.cells import cell_len

    wanted = [max(map(cell_len, texts)) for texts in columns]
    widths = [max(_minimum_width(text) for text in texts) for texts in columns]
    left = available - sum(widths) - SEPARATOR * (len(widths) - 1)
    for place, width in enumerate(wanted):
        more = max(0, min(left, width - widths[place]))
        widths[place] += more
        left -= more
    return widths


def _minimum_width(text: str) -> int:
    from rich.cells import cell_len

    length = cell_len(text)
    return length if length <= LONGEST_UNWRAPPED else max([LEAST_WRAPPED_WIDTH, *map(cell_len, text.split())])


class _Page(io.StringIO):
    """A buffer for Airflow's console, which adapts width and colors to the real output."""

    def __init__(self, goes_to: TextIO) -> None:
        super().__init__()
        self._goes_to = goes_to

    def isatty(self) -> bool:
        return self._goes_to.isatty()


def _is_encodable(line: str) -> bool:
    try:
        line.encode(sys.stderr.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def stdout_for_results() -> Iterator[None]:
    """
    Redirect stdout to stderr, except for results.

    Airflow's loggers keep the stdout that they were made with, so its file descriptor is redirected too.
    """
    global _results
    before, (_results, undo) = _results, _redirect_to_stderr(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _results = before
        undo()


def _redirect_to_stderr(stdout: TextIO) -> tuple[TextIO, Callable[[], None]]:
    """Redirect the descriptor of stdout to stderr; return the former stdout, and an undo function."""
    try:
        number, stderr = stdout.fileno(), sys.stderr.fileno()
    except (OSError, ValueError):  # not files, in tests for instance
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
"""Set to DEBUG, all log lines and tracebacks are shown."""


def debugging() -> bool:
    """Whether the log level is DEBUG."""
    return os.environ.get(LOG_LEVEL, "").upper() == "DEBUG"


@contextmanager
def reduced_logging() -> Iterator[None]:
    """Suppress DEBUG and INFO lines and Python warnings, unless the log level is DEBUG."""
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
        ignore_warnings()
        yield


def ignore_warnings() -> None:
    """Ignore Python warnings. Call it again after Airflow is loaded, whose configuration enables some."""
    if not debugging():
        warnings.simplefilter("ignore")


def _quieten_structlog(afterwards: ExitStack) -> None:
    """Drop DEBUG and INFO lines of Airflow's loggers, which the levels of ``logging`` do not affect."""
    import structlog

    def from_warnings_on(_: Any, method: str, event: Any) -> Any:
        if method in ("debug", "info"):
            raise structlog.DropEvent
        return event

    # In place, as existing loggers keep a reference to this list.
    processors = structlog.get_config()["processors"]
    processors.insert(0, from_warnings_on)
    afterwards.callback(processors.remove, from_warnings_on)
