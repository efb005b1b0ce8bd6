"""Statuses, bodies and rate headers of errors: which error, what it says, how often a call is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import pytest

from airflow_provider_workflow.client import errors
from airflow_provider_workflow.client.answers import request_of
from tests.unit.client.matrix.cells import (
    ATTEMPTS,
    CALLS,
    STEPS,
    TOKEN_CALLS,
    WITHOUT_ACCESS_TOKEN,
    Expected,
    Outcome,
    Service,
    attempts_of,
    check,
)
from tests.unit.client.scripted_server import answer
from tests.unit.client.senders import SENDERS
from tests.unit.fake_clock import FakeClock

STATUSES = (400, 401, 403, 404, 409, 429, 500, 503, 504)
"""Those of docs/service.md 11."""
OTHER_STATUSES = (402, 405, 408, 410, 413, 415, 422, 425, 499, 501, 502, 599)
DETAIL = "This is why."
MORE = {"source": {"pointer": "/lease_limit"}, "meta": {"source": "api", "full_details": {"code": "c"}}}
PAUSED = {"status": "paused", "paused_reason": "user", "paused_at": "2026-01-01T00:00:00Z"}


@dataclass(frozen=True)
class Shape:
    """A body of an error (bytes, or what becomes JSON), with the detail and the code that it gives."""

    body: Any
    detail: str | None = None
    code: str | None = None
    content_type: str = "application/json"

    def answer(self, status: int) -> bytes:
        return answer(status, self.body, {"Content-Type": self.content_type})

    @property
    def is_object(self) -> bool:
        return isinstance(self.body, dict)


def _envelope(code: str | None, **more: Any) -> dict[str, Any]:
    return {"errors": [{"status": "any", "code": code, "title": "A title", "detail": DETAIL, **more}]}


PAGE = b"<html><body><h1>It works not</h1></body></html>"
SHAPES: dict[str, Shape] = {
    "an envelope": Shape(_envelope("some_code"), DETAIL, "some_code"),
    "an envelope with all fields": Shape(_envelope("invalid", **MORE), DETAIL, "invalid"),
    "a refused token": Shape(_envelope("unauthenticated"), DETAIL, "unauthenticated"),
    "a token of another audience": Shape(_envelope("invalid_audience"), DETAIL, "invalid_audience"),
    "an expired lease": Shape(_envelope("lease_expired"), DETAIL, "lease_expired"),
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
    "an envelope without a code": Shape(_envelope(None), DETAIL),
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
        {"errors": [{"status": "x", "code": 7, "title": 1, "detail": None, "source": [], "meta": []}]}
    ),
    "text in no encoding": Shape(b'{"detail": "\xff\xfe"}'),
    "half a body": Shape(b'{"errors": [{"detail": "cut'),
    "a body that is very deep": Shape(b"[" * 100_000),
    "a megabyte": Shape(b"x" * 1_000_000, content_type="text/plain"),
}


def expected(name: str, status: int, shape: Shape) -> Expected:
    """What an error of this status and this body is to a call that had an access token already."""
    kind = kind_of(name, status, shape)
    has = {"status": status, "code": shape.code}
    if kind is errors.InboxPausedError:
        has["paused_reason"] = "user"
    if shape.detail is not None:
        has["detail"] = shape.detail
    renewed = name not in WITHOUT_ACCESS_TOKEN and refuses_the_token(status, shape)
    busy = kind is errors.ServerError
    # With the token, with a new one, and with that again after a moment.
    requests = 3 if renewed else ATTEMPTS if status == 429 else attempts_of(name) if busy else 1
    says = (
        f"{request_of(name)} was answered with {status}",
        shape.code or "",
        shape.detail or phrase(status),
    )
    return Expected(kind, says, requests, 1 if renewed else 0, has)


def kind_of(name: str, status: int, shape: Shape) -> type[errors.WorkflowError]:
    """The class that docs/service.md 11 asks for."""
    if name in TOKEN_CALLS and 400 <= status < 500 and status not in (408, 425, 429):
        return errors.AuthenticationError
    coded = {"lease_expired": errors.LeaseExpiredError, "unauthenticated": errors.AuthenticationError}
    if status == 400 and shape.code in coded:
        return coded[shape.code]
    if status == 400 and name == "guess" and shape.is_object and "errors" not in shape.body:
        return errors.GuessRejectedError
    if status == 409 and "inbox_attributes" in (shape.body if shape.is_object else ()):
        return errors.InboxPausedError
    of_status = {
        401: errors.AuthenticationError,
        403: errors.AuthenticationError,
        404: errors.NotFoundError,
        **dict.fromkeys((408, 425), errors.ServerError),
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
    return HTTPStatus(status).phrase if status in {known_status.value for known_status in HTTPStatus} else ""


def complaints(
    service: Service, kind: str, name: str, statuses: Iterable[int], shapes: Iterable[str]
) -> dict[str, str]:
    """What is wrong with each cell."""
    complaints_of_cells = {}
    for status in statuses:
        for title in shapes:
            shape = {**SHAPES, **ODD_SHAPES}[title]
            outcome = service.play(kind, name, shape.answer(status))
            complaints_of_cells[f"{status}, {title}"] = expected(name, status, shape).complaint(outcome)
    return complaints_of_cells


@pytest.mark.specification("11.3 401, 403, 409, 429, 503, 504", "11.3 500")
@pytest.mark.specification("11.2 400 field", "11.2 401 invalid_audience", "13.2 400", "14.4 scope")
@pytest.mark.parametrize("name", CALLS)
def test_a_documented_error_becomes_its_exception(name: str, service: Service) -> None:
    check(complaints(service, STEPS, name, STATUSES, SHAPES))


@pytest.mark.specification("11.1 errors")
@pytest.mark.parametrize("name", ["get_inbox", "lease_messages", "guess"])
def test_an_error_in_no_documented_form_becomes_an_exception_too(name: str, service: Service) -> None:
    check(complaints(service, STEPS, name, [*STATUSES, *OTHER_STATUSES], ODD_SHAPES))


@pytest.mark.parametrize("kind", SENDERS)
def test_each_sender_passes_an_error_on_whole(kind: str, service: Service) -> None:
    shapes = ("an envelope with all fields", "an HTML page", "an empty body", "half a body", "a megabyte")
    check(complaints(service, kind, "get_inbox", (400, 401, 429, 503), shapes))


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages"])
def test_what_is_wrong_with_the_token_endpoint_is_said_of_it(name: str, service: Service) -> None:
    complaints_of_cells = {}
    for status in (*STATUSES, *OTHER_STATUSES):
        for title, shape in SHAPES.items():
            outcome = service.play(STEPS, name, b"", token=shape.answer(status), warm=False)
            due = expected("app_token", status, shape)
            # Asked for as often as any token, and nothing is sent without one.
            complaints_of_cells[f"{status}, {title}"] = replace(due, sent=0, tokens=due.sent).complaint(
                outcome
            )
    check(complaints_of_cells)


EPOCH = 2_000_000_000
"""What time it is at the service, far from ours."""
LONGEST = 60
"""Seconds that a call waits, in a task and in a trigger, where the sender is not told otherwise."""
BACKOFF = sum((1, 2, 4, 8))
"""Seconds that the pauses between five attempts take at most by themselves (capped, with jitter)."""


def http_date(seconds: float) -> str:
    return formatdate(EPOCH + seconds, usegmt=True)


def window(reset: object, remaining: object = 0) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": "100",
        "X-RateLimit-Remaining": f"{remaining}",
        "X-RateLimit-Reset": f"{reset}",
    }


FORMS: dict[str, tuple[dict[str, str], float | None]] = {
    "nothing": ({}, None),
    "seconds": ({"Retry-After": "30"}, 30),
    "seconds and a fraction": ({"Retry-After": "7.5"}, 7.5),
    "no seconds": ({"Retry-After": "0"}, 0),
    "a date": ({"Retry-After": http_date(30)}, 30),
    "a date that is over": ({"Retry-After": http_date(-30)}, 0),
    "a date of the old form": ({"Retry-After": "Wednesday, 18-May-33 03:33:50 GMT"}, 30),
    "a date of the oldest form, without a zone": ({"Retry-After": "Wed May 18 03:33:50 2033"}, 30),
    "a date without a zone": ({"Retry-After": "Wed, 18 May 2033 03:33:50"}, 30),
    "a date of no zone": ({"Retry-After": "Wed, 18 May 2033 03:33:50 -0000"}, 30),
    "a date that is none": ({"Retry-After": "Someday, 99 Foo 2099 25:61:61 GMT"}, None),
    "a word": ({"Retry-After": "soon"}, None),
    "an empty value": ({"Retry-After": ""}, None),
    "a negative number": ({"Retry-After": "-30"}, 0),
    "not a number": ({"Retry-After": "nan"}, None),
    "infinity": ({"Retry-After": "inf"}, None),
    "a minute": ({"Retry-After": "60"}, 60),
    "an hour": ({"Retry-After": "3600"}, 3600),
    "more seconds than the universe has": ({"Retry-After": "9" * 30}, 1e12),
    "a date in another century": ({"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}, 4_096_250_880 - EPOCH),
    "a window of an hour": (window(3600), 3600),
    "a reset in epoch seconds": (window(EPOCH + 30), 30),
    "a reset in epoch seconds that is over": (window(EPOCH - 30), 0),
    "a reset in seconds": (window(30), 30),
    "a reset of a word": (window("soon"), None),
    "a reset that is negative": (window(-30), 0),
    "a reset while requests are left": (window(30, remaining=1), None),
    "a reset without a remainder": ({"X-RateLimit-Reset": "30"}, None),
    "a reset that contradicts": ({"Retry-After": "2", **window(30)}, 2),
}
"""How a service says when to come again: headers beside ``Date``, and the seconds that they mean."""


def complaint(name: str, status: int, seconds: float | None, outcome: Outcome) -> str:
    """What is wrong with what came of a call that is told the same every time."""
    is_too_long = seconds is not None and seconds > LONGEST
    attempts = 1 if is_too_long else ATTEMPTS if status == 429 else attempts_of(name)
    kind = errors.RateLimitError if status == 429 else errors.ServerError
    due = Expected(kind, (), attempts, has={"retry_after": seconds})
    least, seconds_waited = (seconds or 0) * (attempts - 1), sum(outcome.naps)
    is_right = least - 0.001 <= seconds_waited <= least + BACKOFF
    return due.complaint(outcome) or (
        "" if is_right else f"waited {seconds_waited} s, and was asked for {least}"
    )


@pytest.mark.specification("15 429, 503")
@pytest.mark.parametrize("name", ["get_inbox", "lease_messages"])
def test_a_service_that_is_busy_is_given_the_time_that_it_asks_for_whatever_our_clock_shows(
    name: str, service: Service
) -> None:
    complaints_of_cells = {}
    for status in (429, 503):
        for title, (headers, seconds) in FORMS.items():
            reply = answer(status, b"", {"Date": http_date(0), **headers})
            outcome = service.play(STEPS, name, reply)
            complaints_of_cells[f"{status}, {title}"] = complaint(name, status, seconds, outcome)
    check(complaints_of_cells)


@pytest.mark.parametrize("ahead", [-3600, 3600], ids=["an hour slow", "an hour fast"])
def test_without_a_date_of_the_service_a_wrong_clock_is_all_there_is(ahead: int, service: Service) -> None:
    for headers in ({"Retry-After": http_date(30)}, window(EPOCH + 30)):
        reply = answer(429, b"", headers)
        outcome = service.play(STEPS, "get_inbox", reply, longest_wait=60, clock=FakeClock(EPOCH + ahead))
        assert isinstance(outcome.error, errors.RateLimitError)
        # Never less than nothing; and where it is too long a task says so instead of holding its slot.
        assert outcome.error.retry_after == (3630 if ahead < 0 else 0)
        assert outcome.sent == (1 if ahead < 0 else ATTEMPTS)
