"""Writes JSON in slices, between which an event loop may do something else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

UNITS = 2_000
"""
How much one slice writes: values of numbers, strings, lists and dictionaries, and 16 characters of a long
string count as one. Measuring and writing that many takes about half a millisecond.
"""
CHARACTERS = 16 * UNITS
DEEPEST = 100
"""Levels that are cut into slices; each takes up to four frames of Python's stack, which has 1000."""


def in_slices(value: Any, level: int = 1) -> Iterator[str]:
    """
    What ``json.dumps`` makes of a JSON value, in parts that take about half a millisecond each.

    What lies deeper than ``DEEPEST`` levels is one part, however large it is.

    The encoder of the standard library does all of its work in one call, 10 to 25 ms for 1 MB, and a thread
    would not help: the call lets no other thread run.

    :param level: how deep the value itself lies; the outermost is 1.
    :raises RecursionError: the value is nested too deep.
    """
    if level > DEEPEST or _units(value) <= UNITS:
        yield json.dumps(value)
    elif isinstance(value, str):
        parts = (value[start : start + CHARACTERS] for start in range(0, len(value), CHARACTERS))
        yield from _framed('"', (json.dumps(part)[1:-1] for part in parts), '"')
    elif isinstance(value, dict):
        yield from _framed("{", _separated(_members(value, level)), "}")
    else:
        yield from _framed("[", _separated(_elements(value, level)), "]")


def _units(value: Any) -> int:
    """How much there is to write; just more than ``UNITS`` where it is more. Without recursion."""
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
    """The elements of a large list: as many at a time as fit a slice, and large ones by themselves."""
    some: list[Any] = []
    left = UNITS
    for value in values:
        units = _units(value)
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
    """The same for the members of a large dictionary."""
    some: dict[str, Any] = {}
    left = UNITS
    for key, value in values.items():
        units = _units(value) + _units(key)
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
