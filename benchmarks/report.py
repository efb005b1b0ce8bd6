"""Shows rows: as a table for people, and as JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.results import Figure, Row

HEAD = ("what", "unit", "n", "ours", "beside", "", "ratio", "target", "")
LEGEND = "Medians, with the quartiles in brackets. Ratios are ours to theirs, of the rounds of this run."

Found = Mapping[str, Sequence[Row]]
"""The rows of each benchmark, by its name."""


def table(found: Found) -> str:
    """All rows in columns, below the name of their benchmark."""
    lines = {name: [_cells(row) for row in rows] for name, rows in found.items()}
    every = [HEAD, *(cells for rows in lines.values() for cells in rows)]
    widths = [max(len(cells[column]) for cells in every) for column in range(len(HEAD))]
    shown = [_line(HEAD, widths)]
    for name, rows in lines.items():
        shown += ["", name, *(_line(cells, widths) for cells in rows)]
    return "\n".join([*shown, "", LEGEND])


def write_json(found: Found, path: Path, *, quick: bool = False) -> None:
    """
    Write the rows, and what they were measured on.

    :param quick: whether this only shows that it works.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "airflow": version("apache-airflow"),
        "cores": os.cpu_count(),
        "quick": quick,
    }
    rows = [{"benchmark": name, **row.as_json()} for name, rows in found.items() for row in rows]
    path.write_text(json.dumps({**about, "rows": rows}, indent=2) + "\n")


def _cells(row: Row) -> tuple[str, ...]:
    met = {None: "", True: "met", False: "missed"}[row.met]
    target = str(row.target or "")
    figures = (_shown(row.ours), row.beside, _shown(row.theirs), _shown(row.ratio))
    return (row.what, row.unit, str(row.ours.n), *figures, target, met)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _shown(figure: Figure | None) -> str:
    if figure is None:
        return ""
    if figure.n == 1 or figure.spread == 0:
        return _number(figure.median)
    return f"{_number(figure.median)} ({_number(figure.low)}..{_number(figure.high)})"


def _number(value: float) -> str:
    if value == int(value):
        return f"{value:.0f}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
