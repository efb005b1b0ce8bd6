"""Every documented error, in each of its forms, becomes its exception, through both senders."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.client import errors
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import make, operation
from tests.unit.client.senders import Sender


def envelope(status: Any, code: str | None, detail: str, **more: Any) -> dict[str, Any]:
    return {"errors": [{"status": status, "code": code, "detail": detail, **more}]}


ATTRIBUTES = {"status": 409, "paused_reason": "user", "paused_at": None}
SERVER_META = {"source": "api", "full_details": {"message": "m", "code": "c"}}
LIMITED = {
    "Retry-After": "7",
    "X-RateLimit-Limit": "100",
    "X-RateLimit-Remaining": "0",
    "X-RateLimit-Reset": "9",
}
HTML = "<html><body>Bad gateway</body></html>"

ROWS: dict[str, tuple[str, int, dict[str, Any], type[errors.WorkflowAPIError], dict[str, Any]]] = {
    # Specification 7.1
    "a field of the wrong kind": (
        "lease_messages",
        400,
        {"json": envelope(400, "invalid", "lease_limit: too many.", source={"pointer": "/lease_limit"})},
        errors.InvalidRequestError,
        {"code": "invalid", "detail": "lease_limit: too many.", "source": {"pointer": "/lease_limit"}},
    ),
    "an inbox that is not there": (
        "get_inbox",
        404,
        {"json": envelope(404, None, "Not found.")},
        errors.NotFoundError,
        {"code": None, "detail": "Not found."},
    ),
    "a name with another subscription": (
        "ensure_inbox",
        409,
        {"json": envelope(409, "conflict", "Exists.")},
        errors.ConflictError,
        {"detail": "Exists."},
    ),
    "a paused and drained inbox": (
        "lease_messages",
        409,
        {"json": {"detail": "Paused.", "inbox_attributes": ATTRIBUTES}},
        errors.InboxPausedError,
        {"detail": "Paused.", "meta": ATTRIBUTES, "paused_reason": "user"},
    ),
    "a lease that ran out": (
        "acknowledge_messages",
        400,
        {"json": envelope(400, "lease_expired", "Too late.")},
        errors.LeaseExpiredError,
        {"code": "lease_expired", "detail": "Too late."},
    ),
    # Specification 7.2
    "a text that is no workflow": (
        "guess",
        400,
        {"json": {"messages": [{"detail": "No."}, {"detail": "Really."}, "junk"]}},
        errors.GuessRejectedError,
        {"detail": "No. Really.", "messages": [{"detail": "No."}, {"detail": "Really."}, "junk"]},
    ),
    "a text that is no workflow, unexplained": (
        "guess",
        400,
        {"json": {}},
        errors.GuessRejectedError,
        {"detail": "Bad Request", "messages": []},
    ),
    "a body that v2 cannot parse": (
        "guess",
        400,
        {"json": envelope(400, "parse_error", "Not JSON.")},
        errors.InvalidRequestError,
        {"code": "parse_error"},
    ),
    "a proxy's page instead of a guess": (
        "guess",
        400,
        {"text": HTML},
        errors.InvalidRequestError,
        {"detail": "Bad Request", "code": None},
    ),
    "a client that is unknown": (
        "guess",
        401,
        {"json": envelope("401", "invalid_client_id", "Who?", source={"parameter": "client_id"})},
        errors.AuthenticationError,
        {"code": "invalid_client_id", "source": {"parameter": "client_id"}},
    ),
    "a client that may not": (
        "guess",
        403,
        {"json": envelope(403, "forbidden", "No.")},
        errors.AuthenticationError,
        {"code": "forbidden"},
    ),
    "a guess in conflict": (
        "guess",
        409,
        {"json": envelope(409, "conflict", "Now not.")},
        errors.ConflictError,
        {},
    ),
    "a failing service": (
        "guess",
        500,
        {"json": envelope(500, "error", "A server error occurred.", meta=SERVER_META)},
        errors.ServerError,
        {"code": "error", "meta": SERVER_META},
    ),
    "a service that is down": (
        "guess",
        503,
        {"json": envelope("503", "down", "Down."), "headers": LIMITED},
        errors.ServerError,
        {"retry_after": 7.0, "rate_limit": errors.RateLimit(100, 0, 9.0)},
    ),
    "a service that is slow": (
        "guess",
        504,
        {"json": envelope(504, "timeout", "Slow.")},
        errors.ServerError,
        {"code": "timeout"},
    ),
    # Service facts 9 and 11
    "a wrong client secret": (
        "app_token",
        401,
        {"json": {"error": "invalid_client", "error_description": "Wrong secret."}},
        errors.AuthenticationError,
        {"code": "invalid_client", "detail": "Wrong secret."},
    ),
    "a used code": (
        "exchange_code",
        400,
        {"json": {"error": "invalid_grant"}},
        errors.AuthenticationError,
        {"code": "invalid_grant", "detail": "Bad Request"},
    ),
    "a detail alone": (
        "get_inbox",
        404,
        {"json": {"detail": "Gone."}},
        errors.NotFoundError,
        {"detail": "Gone."},
    ),
    "a title alone": (
        "get_inbox",
        400,
        {"json": {"errors": [{"title": "Bad."}]}},
        errors.InvalidRequestError,
        {"detail": "Bad."},
    ),
    "an HTML page": (
        "get_inbox",
        502,
        {"text": HTML},
        errors.ServerError,
        {"detail": "Bad Gateway", "code": None},
    ),
    "an empty body": (
        "get_inbox",
        500,
        {"text": ""},
        errors.ServerError,
        {"detail": "Internal Server Error"},
    ),
    "a body that is a list": ("get_inbox", 404, {"json": [1]}, errors.NotFoundError, {"detail": "Not Found"}),
    "no errors in the envelope": ("get_inbox", 404, {"json": {"errors": []}}, errors.NotFoundError, {}),
    "errors that are none": (
        "get_inbox",
        404,
        {"json": {"errors": ["x"]}},
        errors.NotFoundError,
        {"meta": {}},
    ),
    "a code that is a number": (
        "get_inbox",
        404,
        {"json": {"errors": [{"code": 7, "detail": None, "source": [], "meta": []}]}},
        errors.NotFoundError,
        {"code": None, "source": None, "meta": {}},
    ),
    "a very deep body": ("get_inbox", 404, {"text": "[" * 100_000}, errors.NotFoundError, {}),
    "an unheard-of status": ("get_inbox", 499, {"text": ""}, errors.InvalidRequestError, {"detail": ""}),
    "a method that is refused": ("get_inbox", 405, {"text": ""}, errors.InvalidRequestError, {}),
}


@pytest.mark.parametrize("row", ROWS)
def test_an_error_becomes_its_exception(row: str, send: Sender, emulator: EmulatorServer) -> None:
    name, status, reply, kind, attributes = ROWS[row]
    emulator.fault("status", operation=operation(name), status=status, times=None, **reply)
    with pytest.raises(errors.WorkflowAPIError) as raised:
        send(make(name))
    assert type(raised.value) is kind
    assert raised.value.status == status
    assert {field: getattr(raised.value, field) for field in attributes} == attributes
    assert str(raised.value).startswith(f"{name} was answered with {status}")


def test_a_limit_becomes_its_exception_with_all_it_says(send: Sender, emulator: EmulatorServer) -> None:
    reply = envelope(429, "rate_limited", "Too many.")
    emulator.fault("status", operation="guess", status=429, json=reply, headers=LIMITED, times=None)
    with pytest.raises(errors.RateLimitError) as raised:
        send(make("guess"))
    assert raised.value.status == 429
    assert raised.value.retry_after == 7.0
    assert raised.value.rate_limit == errors.RateLimit(100, 0, 9.0)


def test_no_text_of_the_service_makes_up_a_line_of_a_log(send: Sender, emulator: EmulatorServer) -> None:
    reply = envelope(404, "a\nb" + "c" * 1000, "first\r\n\x1b[31msecond \u2028 third" + "d" * 10_000)
    emulator.fault("status", operation="get_inbox", status=404, json=reply)
    with pytest.raises(errors.NotFoundError) as raised:
        send(make("get_inbox"))
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 1100
    assert "first [31msecond third" in str(raised.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("name", ["get_inbox", "lease_messages", "app_token"])
def test_a_redirect_is_an_error_that_names_the_host(
    status: int, name: str, send: Sender, emulator: EmulatorServer
) -> None:
    emulator.fault(
        "redirect",
        operation=operation(name),
        status=status,
        location="https://user:pw@else.example.com/x?y=z",
    )
    with pytest.raises(
        errors.WorkflowAPIError, match=r"redirects to else\.example\.com, which is not"
    ) as raised:
        send(make(name))
    assert type(raised.value) is errors.WorkflowAPIError
    assert "pw" not in str(raised.value)
    assert emulator.count(operation(name)) == 1
