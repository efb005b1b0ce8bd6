"""What request handlers use: the emulator's state, a call of it, JSON, and the declaration of operations."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse

from airflow_provider_workflow.emulator.faults import Faults, HeldRequests
from airflow_provider_workflow.emulator.rules.errors import ServiceError
from airflow_provider_workflow.emulator.rules.oauth import Admission
from airflow_provider_workflow.emulator.rules.records import Token
from airflow_provider_workflow.emulator.rules.store import Store
from airflow_provider_workflow.emulator.web.event_stream import Streams

JSON = "application/json"
MAX_LOGGED_REQUESTS = 5000
Body = TypeVar("Body", bound=BaseModel)
_encode = json.JSONEncoder(separators=(",", ":")).encode


class JsonResponse(JSONResponse):
    """A response of ASCII JSON; Starlette's rejects lone surrogates and NaN, which payloads may have."""

    def render(self, content: Any) -> bytes:
        return _encode(content).encode()


def error_response(error: ServiceError) -> JsonResponse:
    """The response of an error of the rules."""
    return JsonResponse(error.body, error.status, error.headers)


@dataclass
class LoggedRequest:
    """
    A received request.

    :param operation: its name (``lease``, ``token`` ...), or ``unknown``.
    :param at: when it was received, in seconds since 1970 by the emulator's clock.
    :param query: without the question mark.
    :param headers: with names in lower case.
    :param status: None until it is answered; stays None if it was dropped.
    """

    operation: str
    at: float
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    status: int | None = None


@dataclass
class Emulator:
    """
    The rules (``store``) and the state of the HTTP layer.

    :param host: host name or IP address that the server listens on.
    :param inboxes: names of inboxes that exist after a reset too.
    :param log: the most recent requests, oldest first; without control calls.
    :param counts: the number of all requests, by operation.
    """

    store: Store
    faults: Faults
    host: str = "127.0.0.1"
    inboxes: tuple[str, ...] = ()
    holds: HeldRequests = field(default_factory=HeldRequests)
    streams: Streams = field(default_factory=Streams)
    log: deque[LoggedRequest] = field(default_factory=lambda: deque(maxlen=MAX_LOGGED_REQUESTS))
    counts: Counter[str] = field(default_factory=Counter)

    def reset(self) -> None:
        """Reset everything: stored state, logs, faults, held requests, open streams."""
        self.faults.clear()
        self.holds.release(drop=True)
        self.streams.close()
        self.store.reset()
        self.log.clear()
        self.counts.clear()
        self.open_inboxes()

    def open_inboxes(self) -> None:
        """Create those of ``inboxes`` that do not exist."""
        for name in self.inboxes:
            self.store.inboxes.open(name)


@dataclass
class Call:
    """
    A request of an operation.

    :param content: its body.
    :param form: its fields, if it is a form.
    :param token: the token that was admitted; missing if the operation needs none.
    """

    emulator: Emulator
    request: Request
    content: bytes
    form: Mapping[str, str]
    token: Token = field(init=False)

    @property
    def store(self) -> Store:
        """The rules."""
        return self.emulator.store

    @property
    def inbox_id(self) -> str:
        """
        The inbox that the path names.

        :raises ServiceError: 404 for an unknown or deleted one.
        """
        return self.store.inboxes.get(self.request.path_params["inbox_id"]).id

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the query."""
        return self.request.query_params

    def json(self) -> dict[str, Any]:
        """
        Read the body, which is a JSON object or empty.

        :raises ServiceError: 400 ``parse_error``.
        """
        try:
            value = json.loads(self.content) if self.content.strip() else {}
        except (ValueError, RecursionError):
            raise ServiceError(400, "parse_error", "The body is not JSON.") from None
        if not isinstance(value, dict):
            raise ServiceError(400, "parse_error", "The body must be a JSON object.")
        return value

    def body(self, model: type[Body]) -> Body:
        """
        Read the body, whose Content-Type must be that of JSON.

        :raises ServiceError: 400 for another Content-Type, and 400 ``parse_error``.
        :raises ValidationError: a field is not valid.
        """
        content_type = self.request.headers.get("content-type", "").partition(";")[0]
        if self.content.strip() and content_type.strip().lower() != JSON:
            detail = f"Content-Type: must be {JSON} for a body of JSON."
            raise ServiceError(400, "invalid", detail, source={"header": "Content-Type"})
        return model.model_validate(self.json())


Handler = Callable[[Call], Any]
"""
Performs a call: returns the JSON of the response, the JSON and its status, or a response. A ServiceError that
it raises becomes the response, and a ValidationError of pydantic a 400.
"""


@dataclass(frozen=True)
class Operation:
    """
    One call of the service.

    :param name: its name in faults, log and counters.
    :param path: path of a Starlette route.
    :param family: group of its rate limit; ``page`` has none, and ``control`` is neither logged nor
        affected by faults.
    :param admission: the token that it needs.
    """

    name: str
    method: str
    path: str
    family: str
    handler: Handler
    admission: Admission | None = None
