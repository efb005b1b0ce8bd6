"""What a benchmark measures: rows of figures taken in one run, shown as a table and written as JSON."""

from __future__ import annotations

import json
import os
import platform
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

HEAD = ("what", "unit", "n", "ours", "beside", "", "ratio", "aim")
LEGEND = "Medians, with the quartiles in brackets. Ratios are ours to theirs, of the rounds of this run."


@dataclass(frozen=True)
class Figure:
    """
    Several samples of one thing.

    :param median: of the samples.
    :param low: their first quartile.
    :param high: their third quartile.
    :param n: how many they are.
    """

    median: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Figure:
        """
        :raises ValueError: there are no samples.
        """
        if not samples:
            raise ValueError("a figure needs one sample or more")
        ordered = sorted(samples)
        low, median, high = (_quartile(ordered, number) for number in (1, 2, 3))
        return cls(median, low, high, len(samples))

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.median:.4g}"
        return f"{self.median:.4g} ({self.low:.4g}..{self.high:.4g})"


def _quartile(ordered: Sequence[float], number: int) -> float:
    """Of samples that may be endless, of which ``statistics.quantiles`` makes ``nan`` at times."""
    index, quarters = divmod(number * (len(ordered) - 1), 4)
    if not quarters:
        return ordered[index]
    return (ordered[index] * (4 - quarters) + ordered[index + 1] * quarters) / 4


@dataclass(frozen=True)
class Point:
    """
    Where the figure of a row is drawn.

    :param plot: name of the plot.
    :param curve: of the plot.
    :param x: a number, or the name of a bar.
    """

    plot: str
    curve: str
    x: float | str


@dataclass(frozen=True)
class Row:
    """
    One thing that was measured.

    :param what: it, in a few words.
    :param unit: of both figures.
    :param ours: this project's.
    :param beside: what it is compared with; "" for nothing.
    :param theirs: the figure of that, in the same run.
    :param ratio: ours to theirs, round by round; None where theirs is 0 in a round.
    :param point: where ``ours`` is drawn; None for nowhere.
    :param at_least: the aim for the median of the ratio, or of ours without theirs; None for no aim.
    :param at_most: the same.
    """

    what: str
    unit: str
    ours: Figure
    beside: str = ""
    theirs: Figure | None = None
    ratio: Figure | None = None
    point: Point | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def aim(self) -> str:
        """The aim, and whether it was missed, which fails nothing; "" without one, or without its ratio."""
        if self.theirs is not None and self.ratio is None:
            return ""
        value = (self.ratio or self.ours).median
        if self.at_least is not None:
            return f"at least {self.at_least:g}" + (", missed" if value < self.at_least else "")
        if self.at_most is not None:
            return f"at most {self.at_most:g}" + (", missed" if value > self.at_most else "")
        return ""


Rows = Mapping[str, Sequence[Row]]
"""The rows of each benchmark, by its name."""


def alone(
    title: str, unit: str, samples: Sequence[float], point: Point | None = None, **aim: float | None
) -> Row:
    """
    A row of what is compared with nothing.

    :param aim: ``at_least`` or ``at_most``.
    """
    return Row(title, unit, Figure.of(samples), point=point, **aim)


def compared(
    title: str,
    unit: str,
    ours: Sequence[float],
    beside: str,
    theirs: Sequence[float],
    point: Point | None = None,
    **aim: float | None,
) -> Row:
    """
    A row of two series that were taken in turns: what slows the machine down slows both of a round, so
    their ratio says more than that of two medians.

    :param aim: ``at_least`` or ``at_most``, for the ratio.
    :raises ValueError: the series differ in length, or are empty.
    """
    pairs = list(zip(ours, theirs, strict=True))
    ratio = Figure.of([our / their for our, their in pairs]) if all(theirs) else None
    return Row(title, unit, Figure.of(ours), beside, Figure.of(theirs), ratio, point, **aim)


def in_turns(
    ways: Mapping[str, Callable[[], T]], rounds: int, pause: tuple[float, float] = (0, 0)
) -> dict[str, list[T]]:
    """
    Call each way once a round; the one that began a round is last in the next.

    A first round, which warms everything up, is not among the samples.

    :param rest: least and most seconds between two calls, chosen at random with seed 1, so that no loop of
        Airflow is met in step.
    :return: the samples of each way, round by round.
    """
    chance, names = random.Random(1), list(ways)
    samples: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds + 1):
        first = number % len(names)
        for name in [*names[first:], *names[:first]]:
            sample = ways[name]()
            if number:
                samples[name].append(sample)
            time.sleep(chance.uniform(*pause))
    return samples


def table(rows: Rows) -> str:
    """All rows in columns, below the name of their benchmark."""
    lines = {name: [_cells(row) for row in members] for name, members in rows.items()}
    cells = [HEAD, *(line for members in lines.values() for line in members)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines_of_table = [_line(HEAD, widths)]
    for name, members in lines.items():
        lines_of_table += ["", name, *(_line(line, widths) for line in members)]
    return "\n".join([*lines_of_table, "", LEGEND])


def _cells(row: Row) -> tuple[str, ...]:
    theirs, ratio = ("" if figure is None else str(figure) for figure in (row.theirs, row.ratio))
    return (row.what, row.unit, str(row.ours.n), str(row.ours), row.beside, theirs, ratio, row.aim)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def write_json(rows: Rows, path: Path, *, quick: bool = False) -> None:
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
    rows_of_file = [{"benchmark": name, **asdict(row)} for name, members in rows.items() for row in members]
    path.write_text(json.dumps({**about, "rows": rows_of_file}, indent=2) + "\n")
