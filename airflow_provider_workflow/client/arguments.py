"""Ranges of the service's arguments (docs/service.md 2 and 4), and checks that name the field at fault."""

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
    """Query parameters: those that were given, as texts that can be sent."""
    return {name: encodable(name, str(value)) for name, value in values.items() if value is not None}


def within(field: str, value: int, bounds: tuple[int, int]) -> int:
    """
    Check that a number lies within its range.

    :param field: how the argument is named in the error.
    :param bounds: lowest and highest value allowed.
    :raises ValueError: it does not, or is no whole number.
    """
    low, high = bounds
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{field} must be a whole number from {low} to {high}, not {value!r}")
    return value


def at_least_one(field: str, value: int) -> int:
    """
    Check a number that has no upper bound.

    :raises ValueError: it is no whole number from 1 on.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{field} must be a whole number of 1 or more, not {value!r}")
    return value


def seconds(field: str, value: float, least: float | None = None) -> float:
    """
    Check a duration.

    :param least: seconds at least; None for any number above 0.
    :raises ValueError: it is too short, or no number.
    """
    number = not isinstance(value, bool) and isinstance(value, (int, float)) and 0 < value < math.inf
    if not number or value < (least or 0):
        bound = "above 0" if least is None else f"from {least:g} on"
        raise ValueError(f"{field} must be a number of seconds {bound}, not {value!r}")
    return value


def intervals(poll_interval: float, max_poll_interval: float) -> tuple[float, float]:
    """
    Check how long polls are apart, in seconds, at first and at last.

    :raises ValueError: names the argument that is wrong.
    """
    seconds("poll_interval", poll_interval)
    if seconds("max_poll_interval", max_poll_interval) < poll_interval:
        raise ValueError(
            f"poll_interval ({poll_interval:g} s) must be at most max_poll_interval ({max_poll_interval:g} s)"
        )
    return poll_interval, max_poll_interval


def flag(field: str, value: bool) -> bool:
    """
    Check a switch: the text ``"False"`` would count as true.

    :raises ValueError: it is neither True nor False.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{field} must be True or False, not {value!r}")
    return value


def filled(field: str, value: object, longest: int | None = None) -> str:
    """
    Check that a text is there.

    :param longest: characters at most.
    :raises ValueError: it is empty, too long, or no text.
    """
    if not isinstance(value, str) or not value.strip():
        # The value stays out of the text: some of these are secrets.
        raise ValueError(f"{field} must be a text that is not empty")
    if longest is not None and len(value) > longest:
        raise ValueError(f"{field} must have at most {longest} characters, not {len(value)}")
    return value


def opaque(field: str, value: object) -> str:
    """
    Check an id that the service made: any text but none. A blank one is as good as another, and must
    not keep those beside it from being acknowledged.

    :raises ValueError: it is empty, or no text.
    """
    return value if isinstance(value, str) and value else filled(field, value)


def encodable(field: str, value: str) -> str:
    """
    Check a text that is to stand in an address.

    :raises ValueError: it has a lone surrogate, for which no address has a form.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{field} must be a text without lone surrogates") from None
    return value


def segment(field: str, value: str) -> str:
    """A value as one segment of a path, whatever characters it has."""
    if encodable(field, filled(field, value)) in (".", ".."):
        # HTTP libraries resolve these even when they are percent-encoded.
        raise ValueError(f"{field} cannot be {value!r}")
    return _quoted(value)


@lru_cache(maxsize=1024)
def _quoted(value: str) -> str:
    # Of the same inboxes in call after call, where it would cost as much as the rest of making the call.
    return quote(value, safe="")


def id_list(message_ids: Sequence[str] | None) -> dict[str, Any]:
    """The body's ``message_ids``; left out, the call means the whole lease."""
    if message_ids is None:
        return {}
    if isinstance(message_ids, str):
        raise ValueError("message_ids must be a list of message ids, not one text")
    low, high = MESSAGE_IDS
    if not low <= len(message_ids) <= high:
        raise ValueError(
            f"message_ids must hold {low} to {high} ids, not {len(message_ids)};"
            " leave it out for the whole lease"
        )
    return {"message_ids": [opaque("message_ids", each) for each in message_ids]}
