"""Moments in fields of the service, and as text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def in_utc(moment: datetime) -> datetime:
    """
    A moment that the service sent, in UTC, which is also the zone of one without a zone.

    :raises OverflowError: it is not in the years 1 to 9999.
    """
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def moment_of(value: Any) -> datetime | None:
    """The moment in a field of the service, in UTC; None if it has none, or one before 1970."""
    if not isinstance(value, str):
        return None
    try:
        # RFC 3339 also allows a lower-case "t" and "z".
        moment = in_utc(datetime.fromisoformat(value.strip().upper()))
    except (ValueError, OverflowError):  # the latter in the years 1 and 9999
        return None
    return moment if moment.year >= 1970 else None


def iso(moment: datetime | float) -> str:
    """
    A moment as text, in UTC, to the second.

    :param moment: or seconds since 1970.
    """
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def normal(value: Any) -> str | None:
    """The moment in a field of the service as text; None if it has none."""
    moment = moment_of(value)
    return None if moment is None else iso(moment)
