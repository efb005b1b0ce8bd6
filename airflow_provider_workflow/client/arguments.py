"""Ranges of the service's arguments (docs/service.md 2 and 4), and checks whose errors name the field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

LEASE_SECONDS = (1, 3600)
LEASE_LIMIT = (1, 100)
MESSAGE_IDS = (1, 100)
PAGE_SIZE = 100
NAME_LENGTH = 100
URL_LENGTH = 2048


def given(**values: Any) -> dict[str, str]:
    """Query parameters: the values that are not None, as strings."""
    return {name: encodable(name, str(value)) for name, value in values.items() if value is not None}


def within(field: str, value: int, bounds: tuple[int, int]) -> int:
    """
    Check that a whole number is within its range.

    :param field: name of the argument in the error.
    :param bounds: minimum and maximum, both allowed.
    :raises ValueError: it is out of range or not a whole number.
    """
    low, high = bounds
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{field} must be a whole number from {low} to {high}, not {value!r}")
    return value


def at_least_one(field: str, value: int) -> int:
    """
    Check a whole number without an upper bound.

    :raises ValueError: it is less than 1 or not a whole number.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{field} must be a whole number of 1 or more, not {value!r}")
    return value


def seconds(field: str, value: float, least: float | None = None) -> float:
    """
    Check a duration.

    :param least: minimum in seconds; None for any number above 0.
    :raises ValueError: it is too short or not a number.
    """
    number = not isinstance(value, bool) and isinstance(value, (int, float)) and 0 < value < math.inf
    if not number or value < (least or 0):
        bound = "above 0" if least is None else f"of {least:g} or more"
        raise ValueError(f"{field} must be a number of seconds {bound}, not {value!r}")
    return value


def intervals(poll_interval: float, max_poll_interval: float) -> tuple[float, float]:
    """
    Check the shortest and the longest interval between polls, in seconds.

    :raises ValueError: names the invalid argument.
    """
    seconds("poll_interval", poll_interval)
    if seconds("max_poll_interval", max_poll_interval) < poll_interval:
        raise ValueError(
            f"poll_interval ({poll_interval:g} s) must be at most max_poll_interval ({max_poll_interval:g} s)"
        )
    return poll_interval, max_poll_interval


def flag(field: str, value: bool) -> bool:
    """
    Check a boolean: the string ``"False"`` would be truthy.

    :raises ValueError: it is neither True nor False.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{field} must be True or False, not {value!r}")
    return value


def filled(field: str, value: object, longest: int | None = None) -> str:
    """
    Check that a string is not blank.

    :param longest: maximum number of characters.
    :raises ValueError: it is blank, too long, or not a string.
    """
    if not isinstance(value, str) or not value.strip():
        # The error does not contain the value, which may be a secret.
        raise ValueError(f"{field} must be a string that is not empty")
    if longest is not None and len(value) > longest:
        raise ValueError(f"{field} must have at most {longest} characters, not {len(value)}")
    return value


def opaque(field: str, value: object) -> str:
    """
    Check an id that the service assigned: any string that is not empty. A blank id is accepted, as it must
    not prevent the acknowledgement of the other ids.

    :raises ValueError: it is empty or not a string.
    """
    return value if isinstance(value, str) and value else filled(field, value)


def encodable(field: str, value: str) -> str:
    """
    Check a string that becomes part of a URL.

    :raises ValueError: it has a lone surrogate, which cannot be encoded in a URL.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{field} must be a string without lone surrogates") from None
    return value


def segment(field: str, value: str) -> str:
    """
    A value as one percent-encoded segment of a path.

    :raises ValueError: it is blank, "." or "..", or has a lone surrogate.
    """
    if encodable(field, filled(field, value)) in (".", ".."):
        # HTTP libraries resolve these even when they are percent-encoded.
        raise ValueError(f"{field} cannot be {value!r}")
    return _quoted(value)


@lru_cache(maxsize=1024)
def _quoted(value: str) -> str:
    # Cached: quoting costs as much as the rest of building a call, and the same inboxes are used repeatedly.
    return quote(value, safe="")


def id_list(message_ids: Sequence[str] | None) -> dict[str, Any]:
    """
    The body's ``message_ids``; without it, the call applies to the whole lease.

    :raises ValueError: not a list of 1 to 100 ids.
    """
    if message_ids is None:
        return {}
    if isinstance(message_ids, str):
        raise ValueError("message_ids must be a list of message ids, not one string")
    low, high = MESSAGE_IDS
    if not low <= len(message_ids) <= high:
        raise ValueError(
            f"message_ids must hold {low} to {high} ids, not {len(message_ids)};"
            " leave it out for the whole lease"
        )
    return {"message_ids": [opaque("message_ids", each) for each in message_ids]}
