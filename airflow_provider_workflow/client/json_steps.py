"""Work on large JSON in short steps, in a thread next to an event loop or within the loop."""

from __future__ import annotations

import json
import time  # real time: other threads get the interpreter in slices of it
from collections.abc import Iterable, Iterator
from typing import Any

TURN_SECONDS = 0.0005
REST_SECONDS = 0.0002
"""How long a decoding thread computes before it sleeps, and how long it sleeps."""


class Pace:
    """
    Lets a computing thread sleep regularly; to be called often, between short steps of one thread.

    A thread that only computes holds the GIL for 5 ms (``sys.getswitchinterval()``) each time that the event
    loop needs it. A thread that sleeps releases it at once.
    """

    def __init__(self) -> None:
        self._rested_at = time.perf_counter()

    def __call__(self) -> None:
        """Sleep if ``TURN_SECONDS`` have passed since the last sleep."""
        if time.perf_counter() - self._rested_at >= TURN_SECONDS:
            time.sleep(REST_SECONDS)
            self._rested_at = time.perf_counter()


def whole(digits: str) -> int | float:
    """
    A whole number of a body; infinity if it has more digits than Python converts.

    One such number must not make the other messages of a lease unreadable.
    """
    try:
        return int(digits)
    except ValueError:
        return float(digits)


UNITS = 2_000
"""
Size of a slice. A value, and each 16 characters of a string, count as one unit. Counting and encoding that
many units takes about half a millisecond.
"""
CHARACTERS = 16 * UNITS
DEEPEST = 100
"""Levels that are split into slices; each needs up to four frames of Python's stack, which has 1000."""


def in_slices(value: Any, level: int = 1) -> Iterator[str]:
    """
    The output of ``json.dumps`` for a JSON value, in parts that take about half a millisecond each.

    A value deeper than ``DEEPEST`` levels is one part, whatever its size.

    The standard library's encoder does all of its work in one call, 10 to 25 ms for 1 MB. A thread would not
    help, as the call holds the GIL.

    :param level: depth of the value; the outermost is 1.
    :raises RecursionError: the value is nested too deep.
    """
    if level > DEEPEST or units_of(value) <= UNITS:
        yield json.dumps(value)
    elif isinstance(value, str):
        parts = (value[start : start + CHARACTERS] for start in range(0, len(value), CHARACTERS))
        yield from _framed('"', (json.dumps(part)[1:-1] for part in parts), '"')
    elif isinstance(value, dict):
        yield from _framed("{", _separated(_members(value, level)), "}")
    else:
        yield from _framed("[", _separated(_elements(value, level)), "]")


def units_of(value: Any) -> int:
    """Number of units of a value; counting stops above ``UNITS``. Does not recurse."""
    waiting, units = [value], 0
    while waiting and units <= UNITS:
        item = waiting.pop()
        units += 1
        if isinstance(item, str):
            units += len(item) // 16
        elif isinstance(item, dict):
            if len(item) > UNITS:
                return UNITS + 1
            units += sum(len(key) // 16 + 1 for key in item)
            waiting += item.values()
        elif isinstance(item, list):
            if len(item) > UNITS:
                return UNITS + 1
            waiting += item
    return units


def _elements(values: list[Any], level: int) -> Iterator[Iterator[str]]:
    """The elements of a large list: as many per part as fit into a slice, and large ones separately."""
    some: list[Any] = []
    left = UNITS
    for value in values:
        units = units_of(value)
        if units > left and some:
            yield iter([json.dumps(some)[1:-1]])
            some, left = [], UNITS
        if units > UNITS:
            yield in_slices(value, level + 1)
        else:
            some.append(value)
            left -= units
    if some:
        yield iter([json.dumps(some)[1:-1]])


def _members(values: dict[str, Any], level: int) -> Iterator[Iterator[str]]:
    """The members of a large dictionary, in the same way as ``_elements``."""
    some: dict[str, Any] = {}
    left = UNITS
    for key, value in values.items():
        units = units_of(value) + units_of(key)
        if units > left and some:
            yield iter([json.dumps(some)[1:-1]])
            some, left = {}, UNITS
        if units > UNITS:
            yield _member(key, value, level)
        else:
            some[key] = value
            left -= units
    if some:
        yield iter([json.dumps(some)[1:-1]])


def _member(key: str, value: Any, level: int) -> Iterator[str]:
    yield from in_slices(key)
    yield ": "
    yield from in_slices(value, level + 1)


def _separated(groups: Iterable[Iterator[str]]) -> Iterator[str]:
    for number, group in enumerate(groups):
        if number:
            yield ", "
        yield from group


def _framed(opening: str, parts: Iterable[str], closing: str) -> Iterator[str]:
    yield opening
    yield from parts
    yield closing
