"""How a body becomes a JSON value: in a task at once, in a thread beside an event loop in short steps."""

from __future__ import annotations

import json
from json import decoder, scanner
from typing import Any

from airflow_provider_workflow.client.pacing import Pace

STRETCH = 100_000
"""Bytes that are looked at together."""
DENSEST = 2_500
"""Strings that such a stretch may have, where it has no end of an object."""
MEMBERS = 4_000
"""Members that are put into an object in one step."""


def decoded(body: bytes, pace: Pace | None = None) -> Any:
    """
    Decode a body.

    The decoder in C holds the interpreter until it is done, in whatever thread, unless it calls back. It can
    do so for each object and each number, which is often enough for most bodies.

    :param pace: of the thread, where an event loop runs beside it; None decodes at once.
    :raises ValueError: it is not JSON.
    :raises RecursionError: it is nested too deep.
    """
    if pace is None:
        return _at_once(body)
    if _is_flat(body):
        try:
            return json.loads(body, cls=_InPython, pace=pace)
        except RecursionError:
            pass  # the decoder in C goes deeper
    steps = _Steps(pace)
    return json.loads(body, object_hook=steps.value, parse_int=steps.whole, parse_float=steps.fraction)


def _at_once(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        return json.loads(body, parse_int=_whole)


def _is_flat(body: bytes) -> bool:
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
        return _whole(digits)

    def fraction(self, digits: str) -> float:
        self._pace()
        return float(digits)


def _whole(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        # An integer of more digits than Python converts. One such number must not hide the other
        # messages of a lease; it becomes infinite, which whoever starts a run refuses by itself.
        return float(digits)
