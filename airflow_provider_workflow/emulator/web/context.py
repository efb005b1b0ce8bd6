"""What request handlers use: JSON, the log of requests, the state, and the declaration of operations."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from airflow_provider_workflow.emulator.faults import Faults, HeldRequests
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.store import Store
from airflow_provider_workflow.emulator.web.notices import Streams, Webhooks

JSON = "application/json"
_encode = json.JSONEncoder(separators=(",", ":")).encode


class JsonResponse(JSONResponse):
    """A response of ASCII JSON; Starlette's rejects lone surrogates and NaN, which payloads may have."""

    def render(self, content: Any) -> bytes:
        return _encode(content).encode()


def error_response(error: ServiceError, headers: dict[str, str] | None = None) -> JsonResponse:
    """
    The response of an error of the rules.
    """
    return JsonResponse(error.body, error.status, {**(headers or {}), **error.headers})


def media_type(request: Request) -> str:
    """The Content-Type of a request in lower case, without parameters; empty if it has none."""
    return (request.headers.get("content-type") or "").partition(";")[0].strip().lower()


async def read_json(request: Request) -> dict[str, Any]:
    """
    Read the body, which is a JSON object or empty.

    :raises ServiceError: 400 for another Content-Type, and 400 ``parse_error``.
    """
    if (await request.body()).strip() and media_type(request) != JSON:
        detail = f"Content-Type: must be {JSON} for a body of JSON."
        raise ServiceError(400, "invalid", detail, source={"header": "Content-Type"})
    return await read_any_json(request)


async def read_any_json(request: Request) -> dict[str, Any]:
    """
    Read the body regardless of its Content-Type: ``curl -d`` sends that of a form.

    :raises ServiceError: 400 ``parse_error``.
    """
    body = await request.body()
    if not body.strip():
        return {}
    try:
        value = json.loads(body)
    except ValueError:
        raise ServiceError(400, "parse_error", "The body is not JSON.") from None
    if not isinstance(value, dict):
        raise ServiceError(400, "parse_error", "The body must be a JSON object.")
    return value


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


@dataclass
class Emulator:
    """
    The rules (``store``) and the state of the HTTP layer.

    :param host: host name or IP address that the server listens on.
    :param inboxes: names of inboxes that exist after a reset too.
    """

    store: Store
    host: str = "127.0.0.1"
    inboxes: tuple[str, ...] = ()
    faults: Faults = field(default_factory=Faults)
    log: RequestLog = field(default_factory=RequestLog)
    holds: HeldRequests = field(default_factory=HeldRequests)
    streams: Streams = field(default_factory=Streams)
    webhooks: Webhooks = field(default_factory=Webhooks)

    def reset(self) -> None:
        """Reset everything: stored state, logs, faults, held requests, open streams."""
        self.faults.clear()
        self.holds.release(drop=True)
        self.streams.close()
        self.store.reset()
        self.log.clear()
        self.webhooks.clear()
        self.open_inboxes()

    def open_inboxes(self) -> None:
        """Create those of ``inboxes`` that do not exist."""
        for name in self.inboxes:
            self.store.inboxes.open(name)


Handler = Callable[[Emulator, Request], Awaitable[Response]]
"""Performs a request. A ServiceError that it raises becomes the response."""


@dataclass(frozen=True)
class Operation:
    """
    One call of the service.

    :param name: its name in faults, log and counters.
    :param path: path of a Starlette route.
    :param family: group of its rate limit; ``page`` has none, and ``control`` is neither logged nor
        affected by faults.
    """

    name: str
    method: str
    path: str
    family: str
    handler: Handler
