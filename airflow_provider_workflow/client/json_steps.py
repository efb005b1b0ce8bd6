"""Large JSON in short steps: decoded in a thread beside an event loop, and encoded within the loop."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from json import decoder, scanner
from typing import Any

TURN_SECONDS = 0.0005
REST_SECONDS = 0.0002
"""How long such a thread computes at a time, and how long it rests then."""


class Pace:
    """
    Of one thread, from now on; to be called often, between steps that are short.

    Threads share the interpreter: one that only computes keeps it for 5 ms (``sys.getswitchinterval()``) each
    time that an event loop has something to do. A thread that sleeps for a moment hands it over at once.
    """

    def __init__(self) -> None:
        self._rested_at = time.perf_counter()

    def __call__(self) -> None:
        """Rest, if it is time to."""
        if time.perf_counter() - self._rested_at >= TURN_SECONDS:
            time.sleep(REST_SECONDS)
            self._rested_at = time.perf_counter()


STRETCH = 100_000
"""Bytes that are looked at together."""
DENSEST = 2_500
"""Strings that such a stretch may have, where it has no end of an object."""
MEMBERS = 4_000
"""Members that are put into an object in one step."""


def decoded(body: bytes, pace: Pace) -> Any:
    """
    Decode a body in steps.

    The decoder in C holds the interpreter until it is done, in whatever thread, unless it calls back. It can
    do so for each object and each number, which is often enough for most bodies.

    :param pace: of the thread that decodes, beside an event loop.
    :raises ValueError: it is not JSON.
    :raises RecursionError: it is nested too deep.
    """
    if is_flat(body):
        try:
            return json.loads(body, cls=_InPython, pace=pace)
        except RecursionError:
            pass  # the decoder in C goes deeper
    steps = _Steps(pace)
    return json.loads(body, object_hook=steps.value, parse_int=steps.whole, parse_float=steps.fraction)


def is_flat(body: bytes) -> bool:
    """Whether many strings follow each other in one object, or in lists."""
    return any(
        body.find(b"}", start, start + STRETCH) < 0 and body.count(b'"', start, start + STRETCH) > 2 * DENSEST
        for start in range(0, len(body), STRETCH)
    )


class _InPython(json.JSONDecoder):
    """
    The decoder that the standard library has in Python as well: it calls back for each string, too.

    It takes up to ten times as long, and is only for what the one in C would hold the interpreter over: 8 ms
    for an object of a megabyte with short members.
    """

    def __init__(self, *, pace: Pace) -> None:
        steps = _Steps(pace)
        super().__init__(object_pairs_hook=steps.members, parse_int=steps.whole, parse_float=steps.fraction)
        self.parse_string = steps.string
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]


class _Steps:
    """What a decoder calls back, each with a rest where it is time for one."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    def value(self, value: dict[str, Any]) -> dict[str, Any]:
        self._pace()
        return value

    def members(self, members: list[tuple[str, Any]]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for start in range(0, len(members), MEMBERS):
            self._pace()
            value.update(members[start : start + MEMBERS])
        return value

    def string(self, *given: Any) -> Any:
        self._pace()
        return decoder.scanstring(*given)  # type: ignore[attr-defined]

    def whole(self, digits: str) -> int | float:
        self._pace()
        return whole(digits)

    def fraction(self, digits: str) -> float:
        self._pace()
        return float(digits)


def whole(digits: str) -> int | float:
    """
    A whole number of a body; one of more digits than Python converts becomes infinite.

    One such number must not hide the other messages of a lease.
    """
    try:
        return int(digits)
    except ValueError:
        return float(digits)


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
    """The same for the members of a large dictionary."""
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
