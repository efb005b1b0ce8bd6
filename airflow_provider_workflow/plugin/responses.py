"""
What the API of the page accepts and answers: JSON, and where something fails a code, what happened, and what
to do about it.
"""

from __future__ import annotations

import json
import re
from math import ceil
from typing import Any

from fastapi.responses import Response

from airflow_provider_workflow.client.advice import reason_of
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ConfigurationError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    RateLimitError,
    TransportError,
    WorkflowError,
)
from airflow_provider_workflow.text import escaped

MAX_ANSWER_SECONDS = 4.0
"""Limit for all requests to the service that one list or one change needs, together."""
ASSUMED_WAIT_SECONDS = 10
"""Where the service limits the rate, and does not say for how long."""
MAX_TITLE_LENGTH = 500
ANSWERS = (
    (TransportError, 502, "unreachable"),
    (RateLimitError, 429, "rate_limited"),
    (AuthenticationError, 502, "wrong_credentials"),
    (NotFoundError, 404, "not_found"),
    (ConflictError, 409, "wrong_state"),
    (InvalidRequestError, 400, "invalid"),
)
"""HTTP status and code of the answer, by the error of a call."""


MAX_FIELD_LENGTH = 2_000
"""Characters of a value in an address or a body."""
UNUSABLE = re.compile("[\0\ud800-\udfff]")
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def answer(body: dict[str, Any], status: int = 200, **headers: str) -> Response:
    """
    An answer of the API.

    The thread of the route encodes it; FastAPI would encode a dictionary in the event loop.

    :raises ValueError: a number is not finite, which JSON cannot express.
    """
    encoded = json.dumps(body, allow_nan=False)
    return Response(encoded, status, {**HEADERS, **headers}, media_type="application/json")


def usable(value: str) -> str:
    """
    A value of a request that can be looked up in any database, and kept as part of a key.

    :raises ValueError: it is another one.
    """
    if len(value) > MAX_FIELD_LENGTH or UNUSABLE.search(value):
        raise ValueError("it is too long, or no database can hold it")
    return value


class PageError(Exception):
    """
    An answer that is an error.

    :param status: HTTP status.
    :param code: name of the error, for programs.
    :param title: what happened, without secrets and payloads.
    :param fix: what to do about it.
    :param retry_after: seconds after which the request may succeed; None if waiting does not help.
    """

    def __init__(
        self, status: int, code: str, title: str, fix: str, retry_after: float | None = None
    ) -> None:
        super().__init__(status, code, title, fix, retry_after)
        self.status = status
        self.code = code
        self.retry_after = None if retry_after is None else max(1, ceil(retry_after))
        texts = {"title": escaped(title, MAX_TITLE_LENGTH), "fix": escaped(fix, MAX_TITLE_LENGTH)}
        self.body = {"code": code, **texts}


def invalid(title: str, fix: str = "reload the page", status: int = 400) -> PageError:
    """The request is wrong."""
    return PageError(status, "invalid", title, fix)


def of_service(error: WorkflowError) -> PageError:
    """The answer for a failed call to the service, or for a connection that cannot be used."""
    if isinstance(error, ConfigurationError):
        return PageError(502, "wrong_credentials", str(error), "correct these fields of the connection")
    if isinstance(error, TransportError) and error.timed_out:
        fix = "try again later; if this lasts, check the address in the connection, and the network"
        return PageError(504, "timeout", str(error), fix)
    fix = error.fix
    if isinstance(error, ConflictError):
        fix = "its state has changed meanwhile: reload the page"
    if isinstance(error, NotFoundError) and not fix:
        fix = "it was deleted, or belongs to another account: reload the list"
    known = ((status, code) for kind, status, code in ANSWERS if isinstance(error, kind))
    status, code = next(known, (502, "service_error"))
    wait = error.retry_after or ASSUMED_WAIT_SECONDS if isinstance(error, RateLimitError) else None
    return PageError(status, code, reason_of(error), fix, wait)
