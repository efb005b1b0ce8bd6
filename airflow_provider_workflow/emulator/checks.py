"""
Checks of values that users and tests choose: settings, faults and the fields of control routes.

A check is a function of a value. It returns what a valid value must be, such as "must be a number", or None
for a valid one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

Check = Callable[[Any], str | None]

CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")


class InvalidValueError(ValueError):
    """
    A value is not valid.

    :param field: name of its field.
    :param reason: what it must be.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def verify(values: Mapping[str, Any], checks: Mapping[str, Check], required: Collection[str] = ()) -> None:
    """
    Check values by their names.

    :raises InvalidValueError: for an unknown name, a missing value, or one that is not valid.
    """
    for name in required:
        if name not in values:
            raise InvalidValueError(name, "this field is required.")
    for name, value in values.items():
        if name not in checks:
            raise InvalidValueError(name, f"there is no such field; there are {', '.join(checks) or 'none'}.")
        try:
            reason = checks[name](value)
        except InvalidValueError as error:
            raise InvalidValueError(f"{name}.{error.field}", error.reason) from None
        if reason:
            raise InvalidValueError(name, f"{reason}.")


def field(default: Any, check: Check) -> Any:
    """A field of a dataclass whose values are checked; a dict or list is copied for each instance."""
    metadata = {"check": check}
    if isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def checks_of(dataclass: type) -> dict[str, Check]:
    """The checks of the fields of a dataclass that has been declared with :func:`field`."""
    return {
        declared.name: declared.metadata["check"]
        for declared in dataclasses.fields(dataclass)
        if "check" in declared.metadata
    }


def anything(_: Any) -> None:
    """Any JSON value is valid."""


def flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def string(value: Any) -> str | None:
    return None if isinstance(value, str) else "must be a string"


def name(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else "must be a string that is not blank"


def header(value: Any) -> str | None:
    """Check the value of a header: Latin-1 without control characters."""
    valid = isinstance(value, str) and not CONTROL_CHARACTERS.search(value) and max(value, default="") <= "ÿ"
    return None if valid else "must be a string of Latin-1 without line breaks"


def headers(value: Any) -> str | None:
    """Check an object of headers."""
    valid = isinstance(value, dict) and all(
        re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", str(key), re.ASCII) and header(text) is None
        for key, text in value.items()
    )
    return None if valid else "must be an object of strings, each a valid header"


def scalar(value: Any) -> str | None:
    valid = value is None or isinstance(value, (str, int, float))
    return None if valid else "must be a string, a number, a boolean or null"


def pattern(value: Any) -> str | None:
    """Check a regular expression."""
    try:
        re.compile(value)
    except (re.error, TypeError) as error:
        return f"must be a regular expression ({error})"
    return None


def whole(low: int, high: int = 10**9) -> Check:
    """An integer between two inclusive bounds."""

    def check(value: Any) -> str | None:
        valid = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if valid else f"must be an integer from {low} to {high}"

    return check


def number(low: float, high: float = 1e12) -> Check:
    """A finite number between two inclusive bounds."""

    def check(value: Any) -> str | None:
        valid = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high
        return None if valid else f"must be a number from {low:g} to {high:g}"

    return check


def one_of(*words: Any) -> Check:
    """One of some words."""
    return lambda value: None if value in words else f"must be one of {', '.join(map(str, words))}"


def nullable(check: Check) -> Check:
    """Null, or what another check accepts."""

    def check_unless_null(value: Any) -> str | None:
        reason = None if value is None else check(value)
        return reason and f"{reason}, or null"

    return check_unless_null


def list_of(check: Check, at_least: int = 0) -> Check:
    """A list of values that another check accepts; a tuple is one too."""

    def check_all(value: Any) -> str | None:
        if not isinstance(value, (list, tuple)) or len(value) < at_least:
            return f"must be a list of {at_least} or more values"
        reason = next((reason for reason in map(check, value) if reason), None)
        return reason and f"must be a list, each of whose values {reason}"

    return check_all


def object_of(valid: Mapping[str, Check]) -> Check:
    """An object with some of the named values, each of which its own check accepts."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return "must be an object"
        verify(value, valid)
        return None

    return check


def words_of(*words: str) -> Check:
    """A string of one or more of some words, separated by blanks."""

    def check(value: Any) -> str | None:
        valid = isinstance(value, str) and value.split() and set(words).issuperset(value.split())
        return None if valid else f"must be one or more of {', '.join(sorted(words))}, separated by blanks"

    return check
