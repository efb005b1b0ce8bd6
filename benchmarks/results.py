"""What a benchmark finds, as data: rows of figures taken in one run, each with its target."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Series = Sequence[float | None]
"""Samples round by round; None where a round has none."""
COMPARISONS = {"<": operator.lt, "<=": operator.le, ">=": operator.ge}


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
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], 1)
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high, len(samples))

    @property
    def spread(self) -> float:
        """How far apart the quartiles are."""
        return self.high - self.low


@dataclass(frozen=True)
class Target:
    """
    What a row is to reach. Missing it fails nothing: it is shown.

    :param of: the figure that is meant.
    :param comparison: of its median with ``bound``.
    :param bound: in the row's unit, or a ratio.
    """

    of: Literal["ours", "ratio"]
    comparison: Literal["<", "<=", ">="]
    bound: float

    def __str__(self) -> str:
        return f"{self.of} {self.comparison} {self.bound:g}"


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
    :param ratio: ours to theirs, round by round; None where a round of theirs was 0.
    :param target: what is to be reached, or None.
    :param point: where ``ours`` is drawn; None for nowhere.
    """

    what: str
    unit: str
    ours: Figure
    beside: str = ""
    theirs: Figure | None = None
    ratio: Figure | None = None
    target: Target | None = None
    point: Point | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        figure = self.ours if self.target is None or self.target.of == "ours" else self.ratio
        if self.target is None or figure is None:
            return None
        return bool(COMPARISONS[self.target.comparison](figure.median, self.target.bound))

    def as_json(self) -> dict[str, Any]:
        """The row as JSON has it; ``spread`` is the distance of the quartiles."""
        return {
            "what": self.what,
            "unit": self.unit,
            "n": self.ours.n,
            "ours": _as_json(self.ours),
            "beside": self.beside,
            "theirs": _as_json(self.theirs),
            "ratio": _as_json(self.ratio),
            "target": None if self.target is None else str(self.target),
            "met": self.met,
            "point": None if self.point is None else asdict(self.point),
        }


def alone(
    what: str, unit: str, samples: Sequence[float], target: Target | None = None, point: Point | None = None
) -> Row:
    """A row of what is compared with nothing."""
    return Row(what, unit, Figure.of(samples), target=target, point=point)


def compared(
    what: str,
    unit: str,
    ours: Sequence[float],
    beside: str,
    theirs: Sequence[float],
    target: Target | None = None,
    point: Point | None = None,
) -> Row:
    """
    A row of two series that were taken in turns: what slows the machine down slows both of a round, so
    their ratio says more than that of two medians.

    :raises ValueError: the series differ in length, or are empty.
    """
    pairs = list(zip(ours, theirs, strict=True))
    ratio = Figure.of([our / their for our, their in pairs]) if all(theirs) else None
    return Row(what, unit, Figure.of(ours), beside, Figure.of(theirs), ratio, target, point)


def paired(
    what: str,
    unit: str,
    ours: Series,
    beside: str,
    theirs: Series,
    target: Target | None = None,
) -> Row:
    """
    The same, of the rounds in which both have a sample. Where there is none, the row has ours alone.

    :raises ValueError: the series differ in length, or ours has no sample.
    """
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    if not pairs:
        return Row(what, unit, Figure.of(there(ours)), beside, target=target)
    return compared(what, unit, [a for a, _ in pairs], beside, [b for _, b in pairs], target)


def there(series: Series) -> list[float]:
    """The samples of a series, without the rounds that have none."""
    return [each for each in series if each is not None]


def _as_json(figure: Figure | None) -> dict[str, float] | None:
    if figure is None:
        return None
    return {"median": figure.median, "low": figure.low, "high": figure.high, "spread": figure.spread}
