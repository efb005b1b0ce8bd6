"""
Whether something grew: what is allowed of everything that was sampled, and the table of what became of it.

A count is compared by the lower quartiles of the first and of the last third of the time: of a process that
has more to do for a while it is what it holds when it has not, and what leaks is held then as well. The slack
of a rule is what may differ without a leak; whatever leaks with every message, run or renewal exceeds it
soon, however slowly the rest of Airflow breathes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression

from tabulate import tabulate  # type: ignore[import-untyped]

from tests.soak import sampling
from tests.soak.recipes import INBOXES
from tests.soak.sampling import Key

Points = Sequence[tuple[float, float]]
"""Seconds, and what was counted then."""

SHORTEST_FOR_MEMORY_SECONDS = 480.0
"""Heaps settle during the first minutes; the slope of less says nothing about an hour."""
STEADY = "steady"
GROWS = "GROWS"
TOO_MANY = "TOO MANY"
TOO_SHORT = "too short to tell"
GOES_ON = "goes on"
STANDS_STILL = "STANDS STILL"
COLUMNS = ("of", "what", "first third", "last third", "most", "per hour", "allowed", "verdict")


@dataclass(frozen=True)
class Rule:
    """
    What is allowed.

    :param slack: by how much the lower quartile of the last third may exceed that of the first.
    :param most: which value none may exceed; None for any.
    :param per_hour: how much it may grow in an hour, in the place of ``slack``; None where that counts.
    :param goes_on: whether, on the contrary, it has to grow: nothing would be shown by what does not happen.
    """

    slack: float = 0
    most: float | None = None
    per_hour: float | None = None
    goes_on: bool = False

    def __str__(self) -> str:
        if self.goes_on:
            return "not to stand still"
        allowed = f"+{self.slack:g}" if self.per_hour is None else f"+{self.per_hour:g}/h"
        return allowed if self.most is None else f"{allowed}, {self.most:g} at most"


RULES = {
    sampling.EVER: Rule(),
    sampling.OPEN_FILES: Rule(slack=4),
    sampling.TO_SERVICE: Rule(slack=4, most=2 * len(INBOXES) + 2),
    sampling.ELSEWHERE: Rule(slack=2),
    sampling.HALF_CLOSED: Rule(slack=1),
    sampling.THREADS: Rule(slack=min(32, (os.cpu_count() or 1) + 4)),
    sampling.OWN: Rule(per_hour=60),
    "sessions": Rule(slack=1, most=2),
    "asyncio tasks": Rule(slack=2),
    "event streams open": Rule(slack=4, most=len(INBOXES)),
    "streams opened": Rule(goes_on=True),
    "tokens issued": Rule(goes_on=True),
}
"""
What is allowed, by what was counted; the rest is only shown.

The slack: streams end with their tokens and are away for some seconds, the listener's is there for a moment
only, as is its session, and a connection that is not used is kept for 15 s. Pools of threads fill up, that of
asyncio to so many. The most: each inbox has one stream and one call at once, and a token is asked for beside
them; there is one session for each file of CA certificates.
"""


@dataclass(frozen=True)
class Row:
    """
    One line of the table: what became of a value over the time.

    Of several processes each is looked at by itself, as most workers are idle most of the time and hold more
    while they are not; then they are added up.

    :param first: lower quartile of the first third of the time.
    :param last: lower quartile of the last third of it.
    :param most: the greatest value.
    :param per_hour: slope of the line that fits all values best.
    :param seconds: from the first value to the last.
    """

    key: Key
    first: float
    last: float
    most: float
    per_hour: float
    seconds: float

    @classmethod
    def of(cls, key: Key, members: Iterable[Points]) -> Row:
        """:param members: what was counted of each process, once or more."""
        *figures, seconds = zip(*map(_figures, members), strict=True)
        return cls(key, *map(sum, figures), max(seconds))

    @property
    def verdict(self) -> str:
        """What is to be said of it; empty where nothing is judged."""
        rule = RULES.get(self.key[1])
        if rule is None:
            return ""
        if rule.goes_on:
            return GOES_ON if self.last > self.first else STANDS_STILL
        if rule.most is not None and self.most > rule.most:
            return TOO_MANY
        if rule.per_hour is None:
            return STEADY if self.last <= self.first + rule.slack else GROWS
        if self.seconds < SHORTEST_FOR_MEMORY_SECONDS:
            return TOO_SHORT
        return STEADY if self.per_hour <= rule.per_hour else GROWS

    @property
    def holds(self) -> bool:
        return self.verdict not in (GROWS, TOO_MANY, STANDS_STILL)

    @property
    def cells(self) -> tuple[str, ...]:
        figures = [
            f"{value:.4g}" if value < 1000 else f"{value:.0f}" for value in (self.first, self.last, self.most)
        ]
        allowed = str(RULES.get(self.key[1]) or "")
        return (*self.key, *figures, f"{self.per_hour:+.1f}", allowed, self.verdict)


def _figures(points: Points) -> tuple[float, ...]:
    """Of one process: what a row has of it."""
    first_at, last_at = points[0][0], points[-1][0]
    third = (last_at - first_at) / 3
    early = [value for at, value in points if at <= first_at + third]
    late = [value for at, value in points if at >= last_at - third]
    slope = linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else 0.0
    most = max(value for _, value in points)
    return _lower_quartile(early), _lower_quartile(late), most, slope * 3600, last_at - first_at


def _lower_quartile(values: list[float]) -> float:
    """Of a quarter of the values none is greater; one of them, as a count between two counts says little."""
    return sorted(values)[(len(values) - 1) // 4]


def rows_of(series: Mapping[Key, Mapping[int, Points]]) -> list[Row]:
    """A row for each series, those of one process next to each other."""
    return [Row.of(key, members.values()) for key, members in sorted(series.items())]


def table(rows: Sequence[Row]) -> str:
    """The rows as lines of text."""
    return str(tabulate([row.cells for row in rows], COLUMNS, "plain"))


def warnings_of_unclosed(home: Path) -> list[str]:
    """Lines of all logs in which aiohttp complains of what nobody closed."""
    return [
        line
        for log in home.rglob("*.log")
        for line in log.read_text(errors="replace").splitlines()
        if "Unclosed c" in line
    ]
