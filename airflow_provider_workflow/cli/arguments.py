"""Values of options: moments, lengths of time and rates."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from airflow_provider_workflow import clock

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Seconds of each unit."""
_LENGTH = re.compile(r"([0-9]{1,9})([smhd])")
_RATE = re.compile(r"([0-9]{1,9})/([smh])")


def seconds_of(flag: str, text: str) -> int:
    """
    The seconds of a length of time such as ``30m``.

    :raises ValueError: it is not one; the text names the option.
    """
    found = _LENGTH.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{flag} must be a length of time such as 90s, 30m, 2h or 7d, not {text!r}")
    return int(found[1]) * UNITS[found[2]]


def moment_of(flag: str, text: str | None) -> datetime | None:
    """
    The moment that an option names: some time ago (``2h``), or in ISO 8601, in UTC if it names no zone.

    :raises ValueError: it is not one; the text names the option.
    """
    if text is None:
        return None
    if _LENGTH.fullmatch(text.strip()):
        try:
            return now() - timedelta(seconds=seconds_of(flag, text))
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    if (moment := clock.moment_of(text)) is None:
        raise ValueError(
            f"{flag} must be a length of time such as 30m, 2h or 7d, or a time such as 2026-01-31T08:00,"
            f" not {text!r}"
        )
    return moment


def interval_of(flag: str, text: str | None) -> float:
    """
    The seconds from one to the next at a rate such as ``5/s``; 0 without a rate.

    :raises ValueError: it is not a rate; the text names the option.
    """
    if text is None:
        return 0.0
    found = _RATE.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise ValueError(f"{flag} must be a number per second, minute or hour such as 5/s, not {text!r}")
    return UNITS[found[2]] / int(found[1])


def now() -> datetime:
    """The present, in UTC."""
    return datetime.fromtimestamp(clock.now(), UTC)
