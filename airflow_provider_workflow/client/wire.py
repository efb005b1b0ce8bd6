"""
What crosses the wire, as data: a request that is ready to be sent, and the answer to one.

Both senders fill and read the same two classes, so nothing about the protocol lives in a sender.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_workflow.client.errors import RateLimit, TransportError

EPOCH_RESET_FLOOR = 1e9
"""A reset value from here on is epoch seconds, a smaller one a delta (service facts 4)."""
LARGEST_NUMBER = 1e12
"""What a header says beyond this is as good as never."""
LARGE_BODY = 256_000
"""Bytes. From here on decoding takes so long (milliseconds) that an event loop has it done beside itself."""
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


@dataclass(frozen=True)
class Request:
    """
    A request with everything in it. Headers and body stay out of ``repr``: they hold secrets.

    :param method: HTTP method.
    :param url: whole address, without the query.
    :param query: query parameters.
    :param headers: all headers but those that the HTTP library adds.
    :param body: the encoded body, or None.
    :param timeout: seconds for the whole attempt, from connecting to the last byte.
    :param proxy: address of the proxy to send it through, or None.
    """

    method: str
    url: str
    query: Mapping[str, str] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    timeout: float
    proxy: str | None = field(repr=False)


@dataclass(frozen=True)
class Answer:
    """
    What came back.

    :param status: HTTP status code.
    :param headers: the headers, found by their names in lower case.
    :param body: all of the body.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    def json(self) -> Any:
        """
        Decode the body.

        :raises TransportError: the body is not JSON (cut short, an HTML page, wrong encoding).
        """
        try:
            return _decoded(self.body)
        except (ValueError, RecursionError):
            pass
        # Out here it has no context: the exceptions of the decoder hold the body, maybe that of a token.
        kind = self.headers.get("content-type", "no content type")
        raise TransportError(
            f"status {self.status} came with a body that is not JSON ({kind}, {len(self.body)} bytes)",
            sent=True,
        )

    def now(self) -> float:
        """
        The service's own clock, in epoch seconds; ours where it sends no ``Date``.

        Dates in headers are compared with this, so a local clock that is wrong does no harm.
        """
        return _http_date(self.headers.get("date")) or time.time()

    def retry_after(self) -> float | None:
        """
        Seconds to stay away: ``Retry-After`` in seconds or as an HTTP date, else the reset header
        of a window that has nothing left (specification 8).
        """
        value = self.headers.get("retry-after")
        seconds = _number(value)
        if seconds is None and (date := _http_date(value)) is not None:
            seconds = date - self.now()
        if seconds is None and "x-ratelimit-remaining" in self.headers:
            limit = self.rate_limit()
            if limit is not None and limit.remaining == 0:
                seconds = limit.reset
        return None if seconds is None else max(0.0, seconds)

    def rate_limit(self) -> RateLimit | None:
        """The ``X-RateLimit-*`` headers, or None where none came (specification 8)."""
        limit, remaining, reset = (
            _number(self.headers.get(f"x-ratelimit-{name}")) for name in ("limit", "remaining", "reset")
        )
        if limit is None and remaining is None and reset is None:
            return None
        if reset is not None and reset >= EPOCH_RESET_FLOOR:
            reset = max(0.0, reset - self.now())
        return RateLimit(
            limit=None if limit is None else int(limit),
            remaining=None if remaining is None else int(remaining),
            reset=reset,
        )


def _decoded(body: bytes) -> Any:
    # The decoder holds the interpreter until it is done, unless it calls back: once for each object of a
    # large body, so that an event loop goes on while a thread decodes.
    hook = _unchanged if len(body) >= LARGE_BODY else None
    try:
        return json.loads(body, object_hook=hook)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        # An integer of more digits than Python converts. One such number must not hide the other
        # messages of a lease; it becomes infinite, which whoever starts a run refuses by itself.
        return json.loads(body, parse_int=_whole)


def _unchanged(value: dict[str, Any]) -> dict[str, Any]:
    return value


def _whole(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _number(value: str | None) -> float | None:
    # "nan", "inf" and "1_000" are floats to Python and no time to wait.
    if value is None or not _DECIMAL.fullmatch(value.strip()):
        return None
    return max(-LARGEST_NUMBER, min(float(value), LARGEST_NUMBER))


def _http_date(value: str | None) -> float | None:
    if not value:
        return None
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def host_of(url: str) -> str:
    """How an address is named in texts: host and port, never path or query."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def causes(error: BaseException) -> list[BaseException]:
    """An exception and all that it came from, innermost last; libraries nest them in several ways."""
    chain = [error]
    while len(chain) < 20:
        last = chain[-1]
        inner = last.__cause__ or last.__context__ or getattr(last, "reason", None)
        inner = inner if isinstance(inner, BaseException) else next(_exceptions(last.args), None)
        if inner is None or inner in chain:
            break
        chain.append(inner)
    return chain


def _exceptions(args: tuple[Any, ...]) -> Iterator[BaseException]:
    return (arg for arg in args if isinstance(arg, BaseException))
