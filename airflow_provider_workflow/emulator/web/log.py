"""The log of requests, so that tests can count requests."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from starlette.requests import Request

KEPT = 5000


class LoggedRequest:
    """
    A received request; ``status`` is None until it is answered, and stays None if it was dropped.

    :param operation: its name (``lease``, ``token`` ...), or ``unknown``.
    :param at: when it was received, in seconds since 1970 by the emulator's clock.
    """

    __slots__ = ("_headers", "_query_string", "at", "body", "method", "operation", "path", "status")

    def __init__(self, operation: str, request: Request, body: bytes, at: float) -> None:
        self.operation = operation
        self.at = at
        self.method = request.method
        self.path: str = request.scope["path"]
        self.body = body
        self.status: int | None = None
        self._headers: list[tuple[bytes, bytes]] = request.scope["headers"]
        self._query_string: bytes = request.scope["query_string"]

    @property
    def headers(self) -> dict[str, str]:
        """Its headers, with names in lower case."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self._headers}

    @property
    def query(self) -> str:
        """Its query, without the question mark."""
        return self._query_string.decode("latin-1")

    def view(self) -> dict[str, Any]:
        """The request as JSON."""
        shown = {
            name: getattr(self, name) for name in ("operation", "at", "method", "path", "query", "status")
        }
        return {**shown, "headers": self.headers, "body": self.body.decode("utf-8", "replace")}

    def __repr__(self) -> str:
        return f"<{self.operation}: {self.method} {self.path} -> {self.status}>"


class RequestLog:
    """
    The most recent requests, and the number of all requests by operation; without control calls.
    """

    def __init__(self) -> None:
        self.recent: deque[LoggedRequest] = deque(maxlen=KEPT)
        self.counts: Counter[str] = Counter()

    def begin(self, operation: str, request: Request, body: bytes, at: float) -> LoggedRequest:
        """Log a request when it is received, so before the client has its response."""
        entry = LoggedRequest(operation, request, body, at)
        self.recent.append(entry)
        self.counts[operation] += 1
        return entry

    def clear(self) -> None:
        """Delete all entries."""
        self.recent.clear()
        self.counts.clear()
