"""The log of requests, so that a test can count how often something was sent."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from starlette.requests import Request

KEPT = 5000


class LoggedRequest:
    """
    A request that arrived; ``status`` is None while it is unanswered, and for ever if it was dropped.

    :param operation: its name (``lease``, ``token`` ...), or ``unknown``.
    :param at: when it came, by the emulator's clock, in seconds since 1970.
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
        """Its headers, named in small letters."""
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self._headers}

    @property
    def query(self) -> str:
        """Its query, without the question mark."""
        return self._query_string.decode("latin-1")

    def view(self) -> dict[str, Any]:
        """Show it as JSON."""
        shown = {
            name: getattr(self, name) for name in ("operation", "at", "method", "path", "query", "status")
        }
        return {**shown, "headers": self.headers, "body": self.body.decode("utf-8", "replace")}

    def __repr__(self) -> str:
        return f"<{self.operation}: {self.method} {self.path} -> {self.status}>"


class RequestLog:
    """
    The most recent requests, and how many there were of each operation in all.

    Control calls are not among them.
    """

    def __init__(self) -> None:
        self.recent: deque[LoggedRequest] = deque(maxlen=KEPT)
        self.counts: Counter[str] = Counter()

    def begin(self, operation: str, request: Request, body: bytes, at: float) -> LoggedRequest:
        """Log a request when it arrives, so that a client that has its response finds it here."""
        entry = LoggedRequest(operation, request, body, at)
        self.recent.append(entry)
        self.counts[operation] += 1
        return entry

    def clear(self) -> None:
        """Forget every request."""
        self.recent.clear()
        self.counts.clear()
