"""
HTTP as data: a request that is ready to send, the answer to it, and its body while it is received.

Both transports use these classes, so limits, decompression, JSON and rate-limit headers are the same in tasks
and in triggers.
"""

from __future__ import annotations

import asyncio
import errno
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from airflow_provider_workflow import clock, moments
from airflow_provider_workflow.client.errors import RateLimit, TransportError
from airflow_provider_workflow.client.tolerant_json import whole
from airflow_provider_workflow.text import escaped

EPOCH_RESET_FLOOR = 1e9
"""
A header for the reset of the rate limit has either a time or a delay in seconds (docs/service.md 15): from
this number on it is a time, in epoch seconds.
"""
MAX_HEADER_NUMBER = 1e12
"""Numbers in headers are clipped to plus or minus this one."""
RETRY_AFTER_STATUSES = (429, 503)
"""Statuses with which ``Retry-After`` is obeyed (docs/service.md 15)."""
THREAD_FROM_BYTES = 256_000
"""In an event loop a larger body is decoded in a thread, because decoding it takes 5 ms or more."""
MAX_ERROR_BYTES = 64_000
"""Maximum size of the body of an answer other than a 2xx; the rest is not read."""
MAX_LINE_BYTES = 65_536
"""Maximum size of the status line of an answer, and of each header."""
MAX_HEADERS = 256
"""Maximum number of headers of an answer; one with more is an error."""
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


@dataclass
class Request:
    """
    A complete request. ``repr`` omits query, headers, body and proxy, which contain secrets.

    :param method: HTTP method.
    :param url: absolute URL, without the query.
    :param query: query parameters.
    :param headers: all headers except those that the HTTP library adds.
    :param body: the encoded body, or None.
    :param timeout: seconds for the connection and the complete answer together.
    :param proxy: URL of the proxy, or None.
    :param limit: maximum number of bytes of the answer's body.
    """

    method: str
    url: str
    query: Mapping[str, str] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    timeout: float
    proxy: str | None = field(repr=False)
    limit: int


@dataclass
class Answer:
    """
    The response to a request.

    :param status: HTTP status code.
    :param headers: the headers; can be looked up by lower-case names.
    :param body: the body.
    :param is_cut: whether the body is longer than the limit, and only its beginning was read.
    :param sent_at: when the request was sent, in epoch seconds by the local clock.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    is_cut: bool = False
    sent_at: float = 0.0

    @property
    def is_success(self) -> bool:
        """Whether the service has done what was requested: only a 2xx says so."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """
        Decode the body.

        :raises TransportError: the body is not JSON (cut short, an HTML page, wrong encoding).
        """
        # The decoder lets other threads run only while it calls a hook, so a large body gets one.
        hook = _unchanged if len(self.body) >= THREAD_FROM_BYTES else None
        # ``whole`` is slower, and also reads a number with more digits than Python converts.
        for parse_int in (None, whole):
            with suppress(ValueError, RecursionError):
                return json.loads(self.body, object_hook=hook, parse_int=parse_int)
        # Raised after ``suppress``, so that it has no context: the decoder's exception contains the body, and
        # that may have a token.
        kind = escaped(self.headers.get("content-type", "no content type"), 100)
        raise TransportError(
            f"the answer with status {self.status} has a body that is not JSON"
            f" ({kind}, {len(self.body)} bytes)",
            sent=True,
        )

    def _now(self) -> float:
        """
        The time of the service, in epoch seconds; the local time if it sends no ``Date``.

        Other dates in the headers are compared with it, so that an inaccurate local clock has no effect.
        """
        return _http_date(self.headers.get("date")) or clock.now()

    def rate_limit(self) -> RateLimit | None:
        """The rate limit, as the headers state it (docs/service.md 15); None without such headers."""
        limit, remaining, reset, seconds = (
            _number(self.headers.get(name))
            for name in ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after")
        )
        if reset is not None and reset < EPOCH_RESET_FLOOR:
            reset += self._now()
        if seconds is None and (date := _http_date(self.headers.get("retry-after"))) is not None:
            seconds = date - self._now()
        limits = RateLimit(
            limit=None if limit is None else int(limit),
            remaining=None if remaining is None else int(remaining),
            reset=reset,
            retry_after=None if seconds is None else max(0.0, seconds),
        )
        return None if limits == RateLimit() else limits

    def retry_after(self) -> float | None:
        """
        Seconds for which the service asks not to be called; None if it does not ask for that.

        They are those of ``Retry-After`` with a 429 or a 503, else those until the reset of a rate limit
        without remaining requests (docs/service.md 15). They have no maximum here: callers wait for at most
        an hour.
        """
        limits = self.rate_limit()
        if limits is None:
            return None
        if limits.retry_after is not None and self.status in RETRY_AFTER_STATUSES:
            return limits.retry_after
        if limits.remaining is None or limits.remaining >= 1 or limits.reset is None:
            return None
        return max(0.0, limits.reset - self._now())


def _unchanged(value: dict[str, Any]) -> dict[str, Any]:
    return value


def _number(value: str | None) -> float | None:
    # float() also accepts "nan", "inf" and "1_000".
    if value is None or not _DECIMAL.fullmatch(value.strip()):
        return None
    return max(-MAX_HEADER_NUMBER, min(float(value), MAX_HEADER_NUMBER))


def _http_date(value: str | None) -> float | None:
    if not value:
        return None
    try:
        return moments.in_utc(parsedate_to_datetime(value)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


PIECE_BYTES = 256_000
"""Maximum size of the output of one step of decompression."""


class Body:
    """
    The body of an answer while it is received: decompressed, and cut at a limit.

    The libraries do not decompress it, because they do that without a limit, and accept different encodings.

    :param status: of the answer; with any but a 2xx the limit is at most ``MAX_ERROR_BYTES``.
    :param encoding: the header ``Content-Encoding``, or None.
    :param limit: maximum number of bytes after decompression.
    """

    def __init__(self, status: int, encoding: str | None, limit: int) -> None:
        self.is_cut = False
        self._bytes_left = limit if 200 <= status < 300 else min(limit, MAX_ERROR_BYTES)
        self._encoding = (encoding or "identity").strip().lower()
        self._pieces: list[bytes] = []
        self._inflater: Any = None

    def add(self, chunk: bytes) -> None:
        """
        Add received bytes.

        :raises OSError: the bytes cannot be decompressed.
        """
        for _ in self._steps(chunk):
            pass

    async def add_in_loop(self, chunk: bytes) -> None:
        """
        Add received bytes in an event loop, which can run other tasks after each step of decompression.

        :raises OSError: the bytes cannot be decompressed.
        """
        for _ in self._steps(chunk):
            await asyncio.sleep(0)

    def _steps(self, chunk: bytes) -> Iterator[None]:
        """Add received bytes, and yield after each step of decompression."""
        if self._encoding == "identity":
            self._append(chunk)
            return
        while chunk and not self.is_cut:
            if self._inflater is None or self._inflater.eof:
                self._inflater = _inflater(self._encoding, chunk)
            self._append(_inflated(self._inflater, chunk, self._encoding))
            chunk = self._inflater.unused_data or self._inflater.unconsumed_tail
            yield

    def _append(self, piece: bytes) -> None:
        self.is_cut = len(piece) > self._bytes_left
        self._pieces.append(piece[: self._bytes_left])
        self._bytes_left -= len(self._pieces[-1])

    def received(self) -> bytes:
        """
        The decompressed body, up to the limit.

        :raises OSError: the compressed data ended early.
        """
        if self._inflater is not None and not self._inflater.eof and not self.is_cut:
            raise _undecodable(self._encoding)
        return b"".join(self._pieces)


def _inflater(encoding: str, chunk: bytes) -> Any:
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise _undecodable(encoding)
    # "deflate" is a zlib stream, but some servers send it without the header of one.
    is_bare = encoding == "deflate" and chunk[0] & 0x0F != zlib.DEFLATED
    return zlib.decompressobj(-zlib.MAX_WBITS if is_bare else zlib.MAX_WBITS | 32)


def _inflated(inflater: Any, chunk: bytes, encoding: str) -> bytes:
    try:
        piece: bytes = inflater.decompress(chunk, PIECE_BYTES)
    except zlib.error:
        raise _undecodable(encoding) from None
    return piece


def _undecodable(encoding: str) -> OSError:
    return OSError(errno.EILSEQ, f"a body with the encoding {escaped(encoding, 20)!r} cannot be decoded")
