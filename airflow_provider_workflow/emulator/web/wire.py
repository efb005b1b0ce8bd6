"""Requests and answers, parsed and built as cheaply as the emulator's pace asks for."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Protocol
from urllib.parse import parse_qsl

from airflow_provider_workflow.emulator.errors import ServiceError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
JSON = "application/json"
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Streaming(Protocol):
    """A body that goes on."""

    async def run(
        self, write: Callable[[bytes], Awaitable[None]], gone: Callable[[], Awaitable[None]]
    ) -> None:
        """Write until the end; ``gone`` returns when the client has left."""


@dataclass(slots=True)
class Answer:
    """
    What is sent back.

    :param stream: a body that goes on, instead of ``body``.
    """

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    stream: Streaming | None = None

    @classmethod
    def of(cls, status: int, value: Any, headers: dict[str, str] | None = None) -> Answer:
        """Build an answer of JSON."""
        return cls(status, _encode(value).encode(), JSON, headers or {})

    @classmethod
    def of_error(cls, problem: ServiceError) -> Answer:
        """Build the answer that an exception of the rules stands for."""
        return cls.of(problem.status, problem.body, dict(problem.headers))

    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """Build the header lines."""
        lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]
        if self.status != 204:
            lines.append((b"content-type", self.content_type.encode("latin-1")))
            if self.stream is None:
                lines.append((b"content-length", str(len(self.body)).encode()))
        return lines


class Request:
    """
    A request, whole.

    :param scope: of ASGI.
    :param body: its body.
    """

    __slots__ = ("_query", "body", "method", "params", "path", "scope")

    def __init__(self, scope: Scope, body: bytes) -> None:
        self.scope = scope
        self.body = body
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.params: Mapping[str, str] = scope.get("path_params") or {}
        self._query: dict[str, str] | None = None

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the query; of a repeated one, the last."""
        if self._query is None:
            text = self.scope["query_string"].decode("latin-1")
            self._query = dict(parse_qsl(text, keep_blank_values=True))
        return self._query

    @property
    def base_url(self) -> str:
        """The address by which the client called, without path."""
        host = self.header(b"host") or "localhost"
        return f"{self.scope['scheme']}://{host}"

    def header(self, name: bytes) -> str | None:
        """Read a header, named in small letters."""
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value.decode("latin-1"))
        return None

    def json(self) -> dict[str, Any]:
        """
        Read the body, which is a JSON object or empty.

        :raises ServiceError: 400 ``parse_error``.
        """
        if not self.body.strip():
            return {}
        try:
            value = json.loads(self.body)
        except ValueError:
            raise ServiceError(400, "parse_error", "The body is not JSON.") from None
        if not isinstance(value, dict):
            raise ServiceError(400, "parse_error", "The body must be a JSON object.")
        return value


class ClientGone(Exception):
    """The client left before its request was whole."""


class Connection:
    """
    The way back to the client, with what a faithful server never does as well.

    :param scope: of ASGI; its extension ``connection`` holds the transport (``server.py``).
    :param now: the service's clock, for the header ``Date``: clients compare other dates with it.
    """

    __slots__ = ("_now", "_receive", "_send", "scope")

    def __init__(self, scope: Scope, receive: Receive, send: Send, now: Callable[[], float]) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        self._now = now

    async def read(self) -> Request:
        """
        Read the request.

        :raises ClientGone: when it does not come whole.
        """
        message = await self._receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body"):
            message = await self._receive()
            body += message.get("body", b"")
        if message["type"] == "http.disconnect":
            raise ClientGone
        return Request(self.scope, body)

    async def send(self, answer: Answer) -> None:
        """Send an answer whole."""
        await self.start(answer.status, answer.raw_headers())
        if answer.stream is None:
            await self._send({"type": "http.response.body", "body": answer.body})
            return
        await answer.stream.run(self.write, self.gone)
        await self._send({"type": "http.response.body", "body": b""})

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send status and headers."""
        if not any(name.lower() == b"date" for name, _ in headers):
            headers = [*headers, (b"date", formatdate(self._now(), usegmt=True).encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, body: bytes) -> None:
        """Send a part of the body."""
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def gone(self) -> None:
        """Wait until the client has left."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def cut(self, *, at_once: bool) -> None:
        """
        End the connection.

        :param at_once: whether to throw away what was written but not sent yet.
        """
        transport = self.scope["extensions"]["connection"]["transport"]
        if at_once:
            transport.abort()
        else:
            transport.close()
        await self.gone()
