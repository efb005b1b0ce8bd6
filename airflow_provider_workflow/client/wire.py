"""
What crosses the wire, as data: a request that is ready to be sent, and the answer to one.

Both senders fill and read the same two classes, so nothing about the protocol lives in a sender.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.decoding import decoded
from airflow_provider_workflow.client.errors import RateLimit, TransportError
from airflow_provider_workflow.client.pacing import Pace

EPOCH_RESET_FLOOR = 1e9
"""A reset value from here on is epoch seconds, a smaller one a delta (docs/service.md 15)."""
LARGEST_NUMBER = 1e12
"""What a header says beyond this is as good as never."""
BELIEVED_WAIT_SECONDS = 900.0
"""
How long a wait that the service asks for is believed. It may ask for more by mistake: a date in 2099,
milliseconds in place of seconds, an epoch. After this time it is sent a call again.
"""
BUSY = (429, 503)
"""Statuses whose ``Retry-After`` is a request to send no calls (docs/service.md 15)."""
LARGE_BODY = 64_000
"""Bytes. From here on decoding takes so long (a millisecond) that an event loop has it done beside itself."""
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
    :param pace: of the thread in which it is read beside an event loop; None anywhere else.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    pace: Pace | None = field(default=None, repr=False, compare=False)

    def json(self) -> Any:
        """
        Decode the body.

        :raises TransportError: the body is not JSON (cut short, an HTML page, wrong encoding).
        """
        try:
            return decoded(self.body, self.pace)
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
        return _http_date(self.headers.get("date")) or clock.now()

    def retry_after(self) -> float | None:
        """Seconds to wait before the next call: what is asked for, up to :data:`BELIEVED_WAIT_SECONDS`."""
        seconds = self.requested_wait()
        return None if seconds is None else min(seconds, BELIEVED_WAIT_SECONDS)

    def requested_wait(self) -> float | None:
        """
        Seconds for which the service asks for no more calls: ``Retry-After`` of a 429 or 503, in seconds
        or as an HTTP date, else the reset header of a window that has nothing left (docs/service.md 15).
        """
        value = self.headers.get("retry-after") if self.status in BUSY else None
        seconds = _number(value)
        if seconds is None and (date := _http_date(value)) is not None:
            seconds = date - self.now()
        if seconds is None and "x-ratelimit-remaining" in self.headers:
            limit = self.rate_limit()
            if limit is not None and limit.remaining == 0:
                seconds = limit.reset
        return None if seconds is None else max(0.0, seconds)

    def rate_limit(self) -> RateLimit | None:
        """The ``X-RateLimit-*`` headers, or None where none came (docs/service.md 15)."""
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
    name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    return f"{name}:{parts.port}" if parts.port else name


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
