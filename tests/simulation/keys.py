"""Business keys. They follow from ``docs/routing.md``, not from the code of the package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.airflow import Run
    from tests.simulation.knowledge import Key

EMPTY: tuple[Any, ...] = (None, False, "", "  ", "null", [], {}, [None], [[], {"of": ""}])
"""Values that count neither as a key nor as a part of a key."""
FULL: tuple[Any, ...] = (0, 7, 7.0, "7", True, "x")
_EMPTY = frozenset(map(repr, EMPTY))


def business_key(value: Any) -> Any:
    """The business key that a value of ``once_per`` stands for; None if it stands for none."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if any(repr(part) in _EMPTY for part in (value, *parts)):
        return None
    if isinstance(value, dict):
        return {name: _whole(part) for name, part in sorted(value.items())}
    return [_whole(part) for part in value] if isinstance(value, list) else _whole(value)


def _whole(part: Any) -> Any:
    return int(part) if isinstance(part, float) and part == int(part) else part


def runs_of(key: Key, runs: list[Run]) -> list[Run]:
    """The runs of a business key that this message started, without those of other messages with the key."""
    return [run for run in runs if run.conf["message"]["id"] == key[1]]
