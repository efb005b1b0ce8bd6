"""What is allowed of everything that was sampled, and the one table that says what became of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.soak import sampling
from tests.soak.growth import GROWS, STANDS_STILL, TOO_MANY, Growth, Points, Rule
from tests.soak.recipes import INBOXES
from tests.soak.sampling import Key

RULES = {
    sampling.EVER: Rule(),
    sampling.OPEN_FILES: Rule(slack=4),
    sampling.TO_SERVICE: Rule(slack=4, most=2 * len(INBOXES) + 2),
    sampling.ELSEWHERE: Rule(slack=2),
    sampling.HALF_CLOSED: Rule(slack=1),
    sampling.THREADS: Rule(slack=min(32, (os.cpu_count() or 1) + 4)),
    sampling.OWN: Rule(per_hour=60),
    "sessions": Rule(most=2),
    "asyncio tasks": Rule(slack=2),
    "event streams open": Rule(slack=4, most=len(INBOXES)),
    "streams opened": Rule(goes_on=True),
    "tokens issued": Rule(goes_on=True),
}
"""
What is allowed, by what was counted; the rest is only shown.

The slack: streams end with their tokens and are away for some seconds, the listener's is there for a moment
only, and a connection that is not used is kept for 15 s. Pools of threads fill up, that of asyncio to so
many. The most: each inbox has one stream and one call at once, and a token is asked for beside them; there is
one session for each file of CA certificates.
"""


@dataclass(frozen=True)
class Row:
    """
    One line of the table.

    :param rule: None where nothing is judged.
    """

    key: Key
    growth: Growth
    rule: Rule | None

    @property
    def verdict(self) -> str:
        return self.rule.verdict(self.growth) if self.rule else ""

    @property
    def holds(self) -> bool:
        return self.verdict not in (GROWS, TOO_MANY, STANDS_STILL)

    @property
    def cells(self) -> tuple[str, ...]:
        growth = self.growth
        numbers = (growth.first, growth.last, growth.most)
        shown = [f"{number:.4g}" if number < 1000 else f"{number:.0f}" for number in numbers]
        return (*self.key, *shown, f"{growth.per_hour:+.1f}", str(self.rule or ""), self.verdict)


COLUMNS = ("of", "what", "first third", "last third", "most", "per hour", "allowed", "verdict")


def judged(series: Mapping[Key, Mapping[int, Points]]) -> list[Row]:
    """A row for each series, those of one process next to each other."""
    return [
        Row(key, Growth.of(members.values()), RULES.get(key[1])) for key, members in sorted(series.items())
    ]


def table(rows: Sequence[Row]) -> str:
    """The rows as lines of text."""
    cells = [COLUMNS, *(row.cells for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 2 <= number <= 5 else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def unclosed(home: Path) -> list[str]:
    """Lines of all logs in which aiohttp complains of what nobody closed."""
    return [
        line
        for log in home.rglob("*.log")
        for line in log.read_text(errors="replace").splitlines()
        if "Unclosed c" in line
    ]
