"""The addresses that a connection holds: read as people write them, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Any
from urllib.parse import SplitResult, urlsplit

SCHEMES = ("http", "https")


def base_url(host: str, scheme: str | None, port: int | None) -> str:
    """
    The base URL that a connection's host stands for; "" for none.

    :param host: with or without scheme and port. An IPv6 address needs no brackets: Airflow removes those
        of a connection that is given as a URI.
    :param scheme: where the host names none; https by default.
    :param port: where the host names none.
    """
    if not host:
        return ""
    host = _bracketed(host)
    if "://" not in host:
        host = f"{scheme.lower() if scheme and is_scheme(scheme) else 'https'}://{host}"
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


def is_scheme(scheme: str | None) -> bool:
    """Whether a connection's ``schema`` is a scheme of the API."""
    return (scheme or "").lower() in SCHEMES


def check_scheme(scheme: str | None, problems: list[str]) -> None:
    """
    Check the connection's ``schema``; in a connection URI it is all that follows the host.

    :param problems: is told what is wrong.
    """
    if scheme and not is_scheme(scheme):
        problems.append(
            "schema must be http or https, and in a connection URI the part between the host and the question"
            " mark is the schema (for a base URL with a path write the connection as JSON, with the whole"
            " base URL as host)"
        )


def _split(address: str) -> SplitResult | None:
    """The parts of a web address, or None where it is none."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable and not any(sign.isspace() for sign in address) else None


def host_of(url: str) -> str:
    """The host of a checked web address, with its port where it names one; for log lines."""
    return urlsplit(url).netloc


def check_addresses(values: Mapping[str, Any], problems: list[str]) -> None:
    """
    Check the addresses and paths among a connection's fields.

    :param problems: is told what is wrong with each.
    """
    for name in ("host", "oauth_url", "token_url", "auth_url", "redirect_uri"):
        address = values.get(name)
        if not address:
            continue
        parts = _split(address)
        if parts is None:
            problems.append(f"{name} is no web address (write it as https://name/path)")
        elif parts.username or parts.password:
            problems.append(f"{name} holds credentials (move them to Login and Password)")
        elif name in ("host", "auth_url") and (parts.query or parts.fragment):
            problems.append(f"{name} has a query (paths are appended to it)")
    for name in ("inbox_path", "templates_path"):
        if name in values and not values[name].startswith("/"):
            problems.append(f"{name} must start with a slash (such as /trigger-inbox/v1)")
