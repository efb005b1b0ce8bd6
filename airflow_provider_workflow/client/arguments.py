"""Checks of a call's arguments (docs/service.md 2 and 4), and of URLs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

LEASE_SECONDS = (1, 3600)
LEASE_LIMIT = (1, 100)
ANY_NUMBER = (1, 10**9)
MESSAGE_IDS = (1, 100)
PAGE_SIZE = 100
NAME_LENGTH = 100
URL_LENGTH = 2048


def query_params(**values: Any) -> dict[str, str]:
    """Query parameters: the values that are not None, as strings."""
    return {name: _encodable(name, str(value)) for name, value in values.items() if value is not None}


def require_int(field: str, value: int, bounds: tuple[int, int]) -> int:
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


def seconds(field: str, value: float, least: float | None = None) -> float:
    """
    Check a duration.

    :param least: minimum in seconds; None for any number above 0.
    :raises ValueError: it is too short or not a number.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    number = is_number and 0 < value < math.inf
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


def require_bool(field: str, value: bool) -> bool:
    """
    Check a boolean: the string ``"False"`` would be truthy.

    :raises ValueError: it is neither True nor False.
    """
    if not isinstance(value, bool):
        raise ValueError(f"{field} must be True or False, not {value!r}")
    return value


def require_text(field: str, value: object, longest: int | None = None) -> str:
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
    return value if isinstance(value, str) and value else require_text(field, value)


def _encodable(field: str, value: str) -> str:
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
    if _encodable(field, require_text(field, value)) in (".", ".."):
        # HTTP libraries resolve these even when they are percent-encoded.
        raise ValueError(f"{field} cannot be {value!r}")
    return _quoted(value)


@lru_cache(maxsize=1024)
def _quoted(value: str) -> str:
    # Cached: quoting costs as much as the rest of building a call.
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
    return {"message_ids": [opaque("message_ids", message_id) for message_id in message_ids]}


SCHEMES = ("http", "https")


def base_url(host: str, scheme: str | None, port: int | None) -> str:
    """
    The base URL of a connection's host; "" if there is no host.

    :param host: with or without scheme and port. An IPv6 address does not need brackets: Airflow removes
        them from a connection URI.
    :param scheme: used if the host has none; https by default.
    :param port: used if the host has none.
    """
    if not host:
        return ""
    host = _bracketed(host)
    if "://" not in host:
        known = (scheme or "").lower()
        host = f"{known if known in SCHEMES else 'https'}://{host}"
    parts = _split(host)
    if port and parts is not None and parts.netloc.rpartition("]")[2].count(":") == 0:
        host = parts._replace(netloc=f"{parts.netloc}:{port}").geturl()
    return host.rstrip("/")


def _bracketed(host: str) -> str:
    scheme, separator, name = host.rstrip("/").rpartition("://")
    try:
        IPv6Address(name)
    except ValueError:
        return host
    return f"{scheme}{separator}[{name}]"


def _split(address: str) -> SplitResult | None:
    """The parts of a URL, or None if it is not an http or https URL."""
    try:
        parts = urlsplit(address)
        host = (parts.hostname or "").encode("idna")  # fails where the look-up of the host would
        # Such as "https:/host", after a scheme was added.
        is_typo = parts.hostname in SCHEMES and parts.port is None and bool(parts.path)
        usable = parts.scheme in SCHEMES and bool(host) and parts.port != 0 and not is_typo
    except ValueError:
        return None
    return parts if usable and address.isprintable() and " " not in address else None


def check_addresses(values: Mapping[str, Any], problems: list[str]) -> None:
    """
    Check the URLs and paths among a connection's fields, and its ``schema``.

    :param problems: list to which errors are added.
    """
    if values["schema"] and values["schema"].lower() not in SCHEMES:
        problems.append(
            "schema must be http or https, and in a connection URI the part between the host and the question"
            " mark is the schema (for a base URL with a path write the connection as JSON, with the whole"
            " base URL as host)"
        )
    for name in ("host", "oauth_url", "auth_url", "redirect_uri"):
        address = values.get(name)
        if not address:
            continue
        parts = _split(address)
        if parts is None:
            problems.append(f"{name} is not a URL (write it as https://host/path)")
        elif parts.username or parts.password:
            problems.append(f"{name} contains credentials (move them to Client ID and Client secret)")
        elif parts.fragment or (parts.query and name in ("host", "auth_url")):
            problems.append(f"{name} has a query or a fragment (remove it)")
    for name in ("inbox_path", "templates_path"):
        path = values.get(name, "/")
        if not path.startswith("/") or "?" in path or "#" in path:
            problems.append(f"{name} must start with a slash and have no query (such as /trigger-inbox/v1)")
