"""Which JSON values Airflow can hold in ``dag_run.conf`` and XCom: found out before anything is sent."""

from __future__ import annotations

import math
from typing import Any

DEEPEST = 150
"""Levels. Runs with deeper values are accepted by some versions, and then none of their tasks can start."""
INTEGERS = (-(2**63), 2**64 - 1)
LARGEST_FLOAT = 2.0**64
"""PostgreSQL gives a larger one back as an integer, which no task of the run can read."""


def problem(value: Any) -> str | None:
    """
    Why Airflow cannot hold a JSON value, or None where it can.

    Walks without recursion, as the depth itself may be the problem.
    """
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if depth > DEEPEST:
            return f"it is nested deeper than {DEEPEST} levels"
        if isinstance(item, dict):
            waiting += ((part, depth + 1) for pair in item.items() for part in pair)
        elif isinstance(item, list):
            waiting += ((part, depth + 1) for part in item)
        elif (found := _of_scalar(item)) is not None:
            return found
    return None


def _of_scalar(item: Any) -> str | None:
    if isinstance(item, str):
        try:
            item.encode()
        except UnicodeEncodeError:
            return "it has a text with a lone surrogate"
    elif isinstance(item, float):
        if not math.isfinite(item):
            return "it has a number that is not finite"
        if abs(item) >= LARGEST_FLOAT:
            return "it has a number of 2**64 or more"
    elif isinstance(item, int) and not INTEGERS[0] <= item <= INTEGERS[1]:
        return "it has an integer of more than 64 bits"
    return None


def has_nul(value: Any) -> bool:
    """Whether a text in a JSON value has a NUL character, which PostgreSQL cannot store."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str) and "\0" in item:
            return True
        if isinstance(item, dict):
            waiting += [part for pair in item.items() for part in pair]
        elif isinstance(item, list):
            waiting += item
    return False


def plain(text: str, longest: int = 300) -> str:
    """
    A text of the service's as it may stand in an error, a log line, an event or an XCom.

    :param longest: characters that are looked at; what comes after them is cut off.
    """
    cut = text if len(text) <= longest else text[: longest - 3] + "..."
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)
