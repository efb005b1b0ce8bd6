"""
Whether something grew: the one place that decides.

A count is compared by the lower quartiles of the first and of the last third of the time: of a process
that has more to do for a while it is what it holds when it has not, and what leaks is held then as well.
The slack of a rule is what may differ without a leak; whatever leaks with every message, run or renewal
exceeds it soon, however slowly the rest of Airflow breathes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import linear_regression

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

    def verdict(self, growth: Growth) -> str:
        """What is to be said of a growth."""
        if self.goes_on:
            return GOES_ON if growth.last > growth.first else STANDS_STILL
        if self.most is not None and growth.most > self.most:
            return TOO_MANY
        if self.per_hour is None:
            return STEADY if growth.last <= growth.first + self.slack else GROWS
        if growth.seconds < SHORTEST_FOR_MEMORY_SECONDS:
            return TOO_SHORT
        return STEADY if growth.per_hour <= self.per_hour else GROWS

    def __str__(self) -> str:
        if self.goes_on:
            return "not to stand still"
        allowed = f"+{self.slack:g}" if self.per_hour is None else f"+{self.per_hour:g}/h"
        return allowed if self.most is None else f"{allowed}, {self.most:g} at most"


@dataclass(frozen=True)
class Growth:
    """
    What became of a value over the time.

    Of several processes each is looked at by itself, as most workers are idle most of the time and hold more
    while they are not; then they are added up.

    :param first: lower quartile of the first third of the time.
    :param last: lower quartile of the last third of it.
    :param most: the greatest value.
    :param per_hour: slope of the line that fits all values best.
    :param seconds: from the first value to the last.
    """

    first: float
    last: float
    most: float
    per_hour: float
    seconds: float

    @classmethod
    def of(cls, members: Iterable[Points]) -> Growth:
        """:param members: what was counted of each process, once or more."""
        each = [cls._of_one(points) for points in members]
        return cls(
            first=sum(growth.first for growth in each),
            last=sum(growth.last for growth in each),
            most=sum(growth.most for growth in each),
            per_hour=sum(growth.per_hour for growth in each),
            seconds=max(growth.seconds for growth in each),
        )

    @classmethod
    def _of_one(cls, points: Points) -> Growth:
        begun, ended = points[0][0], points[-1][0]
        third = (ended - begun) / 3
        early = [value for at, value in points if at <= begun + third]
        late = [value for at, value in points if at >= ended - third]
        slope = linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else 0.0
        most = max(value for _, value in points)
        return cls(_lower_quartile(early), _lower_quartile(late), most, slope * 3600, ended - begun)


def _lower_quartile(values: list[float]) -> float:
    """Of a quarter of the values none is greater; one of them, as a count between two counts says little."""
    return sorted(values)[(len(values) - 1) // 4]
