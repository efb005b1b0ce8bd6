"""
Prints the result of a command on stdout, and everything else on stderr.

Secrets that Airflow masks are masked; control characters are escaped, and long texts cut.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.text import escaped

Row = Mapping[str, Any]

MASK = "***"
"""The same as Airflow's."""
MAX_CELL_LENGTH = 300
"""Maximum characters of a value in a table."""
MAX_MESSAGE_LENGTH = 3000
SHORT_ID = 8
"""The characters of an id that tables show of an inbox."""
WIDTH = 1000
"""Columns of a table at most: terminals wrap lines, so that ids are copied whole."""


def show(form: str, result: Any, *tables: Sequence[Row]) -> None:
    """
    Print the result of a command.

    Airflow's ``print_as``, which changes numbers, prints tables only.

    :param form: ``json``, ``yaml``, ``table`` or ``plain``.
    :param result: printed as JSON or YAML; consists of JSON values.
    :param tables: printed otherwise; the rows of a table have the same columns. None prints nothing.
    """
    if form in ("json", "yaml"):
        write(masked(_for_scripts(form, result)))
    elif tables:
        write("\n\n".join(_table(form, rows) for rows in tables))


def _for_scripts(form: str, result: Any) -> str:
    try:
        if form == "yaml":
            import yaml  # type: ignore[import-untyped]

            return str(yaml.safe_dump(result, sort_keys=False, width=sys.maxsize)).rstrip("\n")
        text = tolerant_json.dumped(result, indent=2)
    except RecursionError:
        # A payload may be nested too deep. JSON is valid YAML too.
        text = tolerant_json.dumped(result)
    # The one control character that JSON does not escape.
    return text.replace("\x7f", "\\u007f")


def _table(form: str, rows: Sequence[Row]) -> str:
    cells = [{name: cell(value) for name, value in row.items()} for row in rows]
    if form == "plain" and cells:
        from tabulate import tabulate  # type: ignore[import-untyped]

        text = str(tabulate(cells, headers="keys", tablefmt="plain", disable_numparse=True))
    else:
        from airflow_provider_workflow import airflow_internals

        console = airflow_internals.console(WIDTH)
        with console.capture() as capture:
            console.print_as(cells, "table")
        text = capture.get()
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def cell(value: Any) -> str:
    """A value as a terminal may be shown it."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else tolerant_json.dumped(value, ensure_ascii=False)
    return escaped(masked(text), MAX_CELL_LENGTH)


def fields(row: Row) -> list[Row]:
    """A table with one row for each field."""
    return [{"field": name, "value": value} for name, value in row.items()]


def write(text: str) -> None:
    """
    Print a line on stdout, unmasked.

    :raises BrokenPipeError: the reader has closed the pipe.
    """
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def note(text: str) -> None:
    """Print a line on stderr, with secrets masked."""
    with suppress(BrokenPipeError):  # the exit code has to do
        print(escaped(masked(text), MAX_MESSAGE_LENGTH), file=sys.stderr)


def masked(text: str) -> str:
    """A string without the secrets that Airflow masks in this process."""
    masker = sys.modules.get("airflow.sdk._shared.secrets_masker")
    # If it is not loaded, no secret is registered.
    return text if masker is None else str(masker.redact(text))


def duration(seconds: float) -> str:
    """Seconds in the largest unit, rounded down, such as ``3 min``; ``0 s`` if negative."""
    units = ((86400, "d"), (3600, "h"), (60, "min"))
    length, unit = next((unit for unit in units if seconds >= unit[0]), (1, "s"))
    return f"{max(0, int(seconds // length))} {unit}"


def outcomes(title: str, by_outcome: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """
    A table of the numbers and the first id of each outcome.

    :param by_outcome: ``Counted`` of each: a number, and the first ids.
    """
    return [
        {title: name, "count": counted["count"], "first id": next(iter(counted["ids"]), None)}
        for name, counted in by_outcome.items()
    ]
