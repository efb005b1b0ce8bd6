"""Each body that an error is documented to have, and some that it is not (docs/service.md 11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from airflow_provider_workflow.client import errors
from airflow_provider_workflow.client.answers import request_of
from tests.unit.client.matrix.cells import ATTEMPTS, TOKEN_CALLS, WITHOUT_ACCESS_TOKEN, Expected, repeated
from tests.unit.client.scripted import answer

STATUSES = (400, 401, 403, 404, 409, 429, 500, 503, 504)
"""Those of docs/service.md 11."""
OTHER_STATUSES = (402, 405, 408, 410, 413, 415, 422, 499, 501, 502, 599)
DETAIL = "This is why."
SOURCE = {"pointer": "/lease_limit"}
META = {"source": "api", "full_details": {"message": "m", "code": "c"}}
PAUSED = {"status": "paused", "paused_reason": "user", "paused_at": "2026-01-01T00:00:00Z"}


@dataclass(frozen=True)
class Shape:
    """
    A body.

    :param body: bytes as they are, anything else as JSON; ``STATUS`` stands for the status.
    :param detail: the explanation that it gives, or None.
    :param code: the code that it gives, or None.
    :param has: further attributes of its error.
    :param content_type: of the answer.
    """

    body: Any
    detail: str | None = None
    code: str | None = None
    has: Mapping[str, Any] = field(default_factory=dict)
    content_type: str = "application/json"

    def answer(self, status: int) -> bytes:
        return answer(status, _filled(self.body, status), {"Content-Type": self.content_type})

    @property
    def is_object(self) -> bool:
        return isinstance(self.body, dict)


class Status:
    """Stands for the status of the answer."""


INTEGER, DIGITS = Status(), Status()


def _filled(body: Any, status: int) -> Any:
    if body is INTEGER or body is DIGITS:
        return status if body is INTEGER else str(status)
    if isinstance(body, dict):
        return {key: _filled(value, status) for key, value in body.items()}
    return [_filled(each, status) for each in body] if isinstance(body, list) else body


def _envelope(status: Any, code: str | None, **more: Any) -> dict[str, Any]:
    return {"errors": [{"status": status, "code": code, "title": "A title", "detail": DETAIL, **more}]}


PAGE = b"<html><body><h1>It works not</h1></body></html>"
SHAPES: dict[str, Shape] = {
    "an envelope": Shape(_envelope(INTEGER, "some_code"), DETAIL, "some_code", {"source": None, "meta": {}}),
    "an envelope whose status is of digits": Shape(_envelope(DIGITS, "some_code"), DETAIL, "some_code"),
    "an envelope with all fields": Shape(
        _envelope(INTEGER, "invalid", source=SOURCE, meta=META),
        DETAIL,
        "invalid",
        {"source": SOURCE, "meta": META},
    ),
    "a refused token": Shape(_envelope(INTEGER, "unauthenticated"), DETAIL, "unauthenticated"),
    "a token of another audience": Shape(_envelope(INTEGER, "invalid_audience"), DETAIL, "invalid_audience"),
    "an expired lease": Shape(_envelope(INTEGER, "lease_expired"), DETAIL, "lease_expired"),
    "a detail alone": Shape({"detail": DETAIL}, DETAIL),
    "messages of a guess": Shape({"messages": [{"detail": "This"}, {"detail": "is why."}, "junk"]}, DETAIL),
    "a paused inbox": Shape({"detail": DETAIL, "inbox_attributes": PAUSED}, DETAIL),
    "an error of the token endpoint": Shape(
        {"error": "invalid_grant", "error_description": DETAIL}, DETAIL, "invalid_grant"
    ),
    "an HTML page": Shape(PAGE, content_type="text/html"),
    "an empty body": Shape(b"", content_type="text/plain"),
}
ODD_SHAPES: dict[str, Shape] = {
    "an envelope without a code": Shape(_envelope(INTEGER, None), DETAIL),
    "an envelope with two errors": Shape(
        {"errors": [{"code": "first", "detail": DETAIL}, {"code": "second", "detail": "Not this."}]},
        DETAIL,
        "first",
    ),
    "a title alone": Shape({"errors": [{"title": DETAIL}]}, DETAIL),
    "an HTML page that is called JSON": Shape(PAGE),
    "an empty object": Shape({}),
    "a list": Shape([1]),
    "no errors in the envelope": Shape({"errors": []}),
    "errors that are none": Shape({"errors": ["x"]}),
    "fields of other kinds": Shape(
        {"errors": [{"status": "x", "code": 7, "title": 1, "detail": None, "source": [], "meta": []}]},
        has={"source": None, "meta": {}},
    ),
    "text in no encoding": Shape(b'{"detail": "\xff\xfe"}'),
    "half a body": Shape(b'{"errors": [{"detail": "cut'),
    "a body that is very deep": Shape(b"[" * 100_000),
    "a megabyte": Shape(b"x" * 1_000_000, content_type="text/plain"),
}


def expected(name: str, status: int, shape: Shape) -> Expected:
    """What an error of this status and this body is to a call that had an access token already."""
    kind = kind_of(name, status, shape)
    has = {"status": status, "code": shape.code, **shape.has}
    if kind is errors.InboxPausedError:
        has |= {"meta": PAUSED, "paused_reason": "user"}
    if kind is errors.GuessRejectedError:
        has["messages"] = shape.body.get("messages", [])
        has.pop("meta", None)
    if shape.detail is not None:
        has["detail"] = shape.detail
    renewed = name not in WITHOUT_ACCESS_TOKEN and refuses_the_token(status, shape)
    sent = 2 if renewed else ATTEMPTS if status == 429 else repeated(name) if status >= 500 else 1
    says = (
        f"{request_of(name)} was answered with {status}",
        shape.code or "",
        shape.detail or phrase(status),
    )
    return Expected(kind, says, sent, 1 if renewed else 0, has)


def kind_of(name: str, status: int, shape: Shape) -> type[errors.WorkflowError]:
    """The class that docs/service.md 11 asks for."""
    if status == 400:
        if shape.code == "lease_expired":
            return errors.LeaseExpiredError
        if shape.code == "unauthenticated" or name in TOKEN_CALLS:
            return errors.AuthenticationError
        if name == "guess" and shape.is_object and "errors" not in shape.body:
            return errors.GuessRejectedError
    if status == 409 and "inbox_attributes" in (shape.body if shape.is_object else ()):
        return errors.InboxPausedError
    of_status = {
        401: errors.AuthenticationError,
        403: errors.AuthenticationError,
        404: errors.NotFoundError,
        409: errors.ConflictError,
        429: errors.RateLimitError,
    }
    return of_status.get(status, errors.ServerError if status >= 500 else errors.InvalidRequestError)


def refuses_the_token(status: int, shape: Shape) -> bool:
    """Whether a new token may help (docs/service.md 11 and 14.4)."""
    if status == 400:
        return shape.code == "unauthenticated"
    return status == 401 and shape.code != "invalid_audience"


def phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in {each.value for each in HTTPStatus} else ""
