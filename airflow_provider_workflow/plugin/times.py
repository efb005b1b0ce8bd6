"""Times in answers: ISO 8601, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def iso(moment: datetime) -> str:
    """A moment as text, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def of_seconds(seconds: float) -> str:
    """A moment in seconds since 1970 as text."""
    return iso(datetime.fromtimestamp(seconds, UTC))


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parsed(value: Any) -> datetime | None:
    """The moment in a field of the service; None if it has none, or one before 1970."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the latter in the years 1 and 9999
        return None
    return moment if moment >= EPOCH else None


def normal(value: Any) -> str | None:
    """The moment in a field of the service as text; None if it has none."""
    moment = parsed(value)
    return None if moment is None else iso(moment)
