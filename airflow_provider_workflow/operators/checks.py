"""Arguments of operators, checked where the DAG file is parsed, as far as they are known there."""

from __future__ import annotations

import math
from typing import Any

from airflow_provider_workflow.client.arguments import filled
from airflow_provider_workflow.options import known_later


def check_text(field: str, value: Any, longest: int | None = None) -> Any:
    """
    Check a text that has to be there.

    :param longest: characters at most.
    :raises ValueError: names the argument: it is empty, too long, or no text.
    """
    return value if known_later(value) else filled(field, value, longest)


def check_seconds(field: str, value: float) -> float:
    """
    Check a duration.

    :raises ValueError: names the argument: it is no number above 0.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(f"{field} must be a number of seconds above 0, not {value!r}")
    return value


def check_intervals(poll_interval: float, max_poll_interval: float) -> tuple[float, float]:
    """
    Check how long polls are apart, in seconds, at first and at last.

    :raises ValueError: names the argument that is wrong.
    """
    check_seconds("poll_interval", poll_interval)
    if check_seconds("max_poll_interval", max_poll_interval) < poll_interval:
        raise ValueError(
            f"max_poll_interval ({max_poll_interval:g} s) is below poll_interval ({poll_interval:g} s)"
        )
    return poll_interval, max_poll_interval


def check_flag(field: str, value: bool) -> bool:
    """
    Check a switch: the text ``"False"`` would count as true.

    :raises ValueError: names the argument: it is neither True nor False.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{field} must be True or False, not {value!r}")
    return value


def whole_number(value: Any) -> Any:
    """A number that a template turned into text, as a number again; anything else as it is."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
