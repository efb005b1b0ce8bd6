"""The addresses that a connection holds: read as people write them, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit


def base_url(host: str, scheme: str | None, port: int | None) -> str:
    """
    The base URL that a connection's host stands for; "" for none.

    :param scheme: where the host names none; https by default.
    :param port: where the host names none.
    """
    if not host:
        return ""
    if "://" not in host:
        host = f"{scheme or 'https'}://{host}"
    parts = _split(host)
    if port and parts is not None and parts.netloc.rpartition("]")[2].count(":") == 0:
        host = parts._replace(netloc=f"{parts.netloc}:{port}").geturl()
    return host.rstrip("/")


def _split(address: str) -> SplitResult | None:
    """The parts of a web address, or None where it is none."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable and not any(sign.isspace() for sign in address) else None


def check_addresses(values: Mapping[str, Any], problems: list[str]) -> None:
    """
    Check the addresses and paths among a connection's fields.

    :param problems: is told what is wrong with each.
    """
    for name in ("host", "token_url", "auth_url", "redirect_uri"):
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
