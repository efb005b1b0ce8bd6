"""What an error keeps of the service's answer: its body, its rate limit, and the field that it names."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.errors import RateLimit
from tests.unit.client.calls import SOME_ID
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted_server import ScriptedServer, answer

SECRET = "p\"q's secret"
ENVELOPE: dict[str, Any] = {
    "errors": [
        {
            "status": 400,
            "code": "required",
            "title": "Invalid",
            "detail": "This field is required.",
            "source": {"pointer": "/actions", "parameter": "limit", "header": "Accept"},
            "meta": {"source": "api", "full_details": {"message": "no actions", "code": "e-1"}},
        },
        {"status": "400", "code": "too_long", "detail": "Too long.", "source": None, "meta": None},
    ]
}


def error_of(
    make_send: MakeSender, scripted_server: ScriptedServer, reply: bytes, call: Any = None
) -> errors.WorkflowAPIError:
    """The error of a call that is answered so, in the process of the caller and in another one."""
    scripted_server.answers = [reply]
    send = make_send(scripted_server.settings(client_secret=SECRET), longest_wait=0)
    with pytest.raises(errors.WorkflowAPIError) as error_info:
        send(call or api.get_inbox(SOME_ID))
    copied_error: Any = pickle.loads(pickle.dumps(error_info.value))
    assert (copied_error.answer, copied_error.rate_limit) == (
        error_info.value.answer,
        error_info.value.rate_limit,
    )
    return error_info.value


@pytest.mark.specification("11.1 answer")
def test_an_error_has_the_whole_answer_of_the_service(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    for status in (400, 401, 404, 409, 500):
        assert error_of(make_send, scripted_server, answer(status, ENVELOPE)).answer == ENVELOPE


@pytest.mark.specification("13.2 messages")
def test_a_rejected_guess_has_all_messages(make_send: MakeSender, scripted_server: ScriptedServer) -> None:
    body = {"messages": [{"detail": "No app.", "hint": {"apps": ["shop"]}}, {"detail": "Too short."}]}
    error = error_of(make_send, scripted_server, answer(400, body), api.guess("a poem"))
    assert isinstance(error, errors.GuessRejectedError)
    assert error.answer == body


@pytest.mark.specification("11.1 source")
@pytest.mark.parametrize(
    ("source", "place"),
    [
        (ENVELOPE["errors"][0]["source"], " (at /actions)"),
        ({"pointer": "", "parameter": "limit", "header": "Accept"}, " (at limit)"),
        ({"pointer": None, "header": "Accept"}, " (at Accept)"),
        ({"pointer": "/a\n" + "b" * 1000}, " (at /a\\n" + "b" * 94 + "...)"),
        ({"pointer": 5}, ""),
        ({}, ""),
        (None, ""),
        ("/actions", ""),
    ],
)
def test_the_text_of_an_error_names_the_field(
    source: Any, place: str, make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    body = {"errors": [{"code": "required", "detail": "This field is required.", "source": source}]}
    error = error_of(make_send, scripted_server, answer(400, body))
    text = "The request for an inbox was answered with 400 (required): This field is required."
    assert str(error) == text + place
    assert error.detail == "This field is required."


@pytest.mark.specification("15 headers")
@pytest.mark.parametrize(
    ("headers", "expected", "retry_after"),
    [
        ({}, None, None),
        ({"Retry-After": "7200"}, RateLimit(retry_after=7200), 7200),
        (
            {
                "Date": "Wed, 18 May 2033 03:33:20 GMT",
                "Retry-After": "Wed, 18 May 2033 03:34:20 GMT",
                "X-RateLimit-Limit": "50",
                "X-RateLimit-Remaining": "0",
                "X-RateLimit-Reset": "2000003600",
            },
            RateLimit(50, 0, 2_000_003_600, 60),
            60,
        ),
        (
            {
                "Date": "Wed, 18 May 2033 03:33:20 GMT",
                "X-RateLimit-Remaining": "0",
                "X-RateLimit-Reset": "3600",
            },
            RateLimit(None, 0, 2_000_003_600, None),
            3600,
        ),
        ({"X-RateLimit-Limit": "many", "X-RateLimit-Remaining": "3"}, RateLimit(remaining=3), None),
        ({"X-RateLimit-Limit": "nan", "X-RateLimit-Reset": ""}, None, None),
    ],
)
def test_an_error_has_the_rate_limit_of_the_headers(
    headers: dict[str, str],
    expected: RateLimit | None,
    retry_after: float | None,
    make_send: MakeSender,
    scripted_server: ScriptedServer,
) -> None:
    error = error_of(make_send, scripted_server, answer(429, ENVELOPE, headers))
    assert (error.rate_limit, error.retry_after) == (expected, retry_after)


def test_a_call_that_was_not_sent_has_neither_answer_nor_rate_limit(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    scripted_server.answers = [answer(429, ENVELOPE, {"Retry-After": "600"})]
    send = make_send(scripted_server.settings())
    for has_answer in (True, False):
        with pytest.raises(errors.RateLimitError) as error_info:
            send(api.get_inbox(SOME_ID))
        assert (error_info.value.answer is not None, error_info.value.rate_limit is not None) == (
            has_answer,
        ) * 2


PAGE = "<html><body>Bad Gateway</body></html>"
HUGE = {"errors": [{"code": "c", "detail": "d", "meta": {"values": [[{}]] * 4000}}] * 2}
DEEP = '{"errors": [{"code": "c", "detail": "d", "meta": %s%s}]}'
GARBAGE: dict[str, tuple[Any, Any]] = {
    "a page": (PAGE.encode(), PAGE),
    "nothing": (b"", None),
    "blanks": (b" \n", " \n"),
    "a detail alone": ({"detail": "d"}, {"detail": "d"}),
    "a list": ([1, "x"], [1, "x"]),
    "a number": (5, 5),
    "null": (None, "null"),
    "a string": ("x", "x"),
    "errors that are none": ({"errors": ["x", None]}, {"errors": ["x", None]}),
    "huge lists": (HUGE, HUGE),
    "100 levels": ((DEEP % ("[" * 97, "]" * 97)).encode(), None),
    "101 levels": ((DEEP % ("[" * 98, "]" * 98)).encode(), DEEP % ("[" * 98, "]" * 98)),
    "endless depth": (b"[" * 60_000, "[" * 60_000),
    "no UTF-8": (b"\xff\xfe!", "\ufffd\ufffd!"),
    "half an emoji": (b'{"detail": "\\ud83d"}', {"detail": "\ud83d"}),
    "an endless number": (b'{"detail": %s}' % (b"9" * 5000), {"detail": float("inf")}),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_an_answer_in_no_documented_form_is_kept_as_it_is(
    case: str, make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    body, expected = GARBAGE[case]
    error = error_of(make_send, scripted_server, answer(400, body))
    assert len(str(error)) < 1200
    assert str(error).isprintable()
    if case == "100 levels":
        assert error.answer["errors"][0]["detail"] == error.detail == "d"
    else:
        assert error.answer == expected


def test_secrets_in_an_answer_are_masked(make_send: MakeSender, scripted_server: ScriptedServer) -> None:
    echo = {"sent": {"secret": SECRET, SECRET: ["Bearer scripted-token"]}}
    body = {"errors": [{"code": SECRET, "detail": "d", "source": {"pointer": f"/{SECRET}"}, "meta": echo}]}
    error = error_of(make_send, scripted_server, answer(400, body))
    assert error.answer["errors"][0]["meta"] == {"sent": {"secret": "***", "***": ["Bearer ***"]}}
    assert str(error).endswith("400 (***): d (at /***)")
    page = error_of(make_send, scripted_server, answer(400, f"<p>{SECRET} scripted-token</p>".encode()))
    assert page.answer == "<p>*** ***</p>"


def test_no_part_of_a_secret_is_left_where_a_long_answer_is_cut(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    text = "x" * (64_000 - len(SECRET) + 1) + SECRET
    error = error_of(make_send, scripted_server, answer(400, text.encode()))
    assert 60_000 < len(error.answer) < 64_000
    assert set(error.answer) == {"x"}


def test_the_text_of_an_error_is_short_however_long_the_answer_is(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    long = "y" * 10_000
    fields = {"code": long, "title": long, "detail": long, "source": {"pointer": long}}
    error = error_of(make_send, scripted_server, answer(400, {"errors": [fields]}))
    assert error.answer["errors"][0] == fields
    assert len(str(error)) < 1200


CREDENTIALS = "The client_id and/or client_secret passed are incorrect."


def token_error_of(make_send: MakeSender, scripted_server: ScriptedServer, call: Any) -> Any:
    send = make_send(scripted_server.settings(client_secret=SECRET), longest_wait=0)
    with pytest.raises(errors.WorkflowError) as error_info:
        send(call)
    return error_info.value


@pytest.mark.parametrize("call", [api.get_inbox(SOME_ID), api.app_token("external")])
def test_an_error_of_the_token_endpoint_with_status_200_is_named(
    call: Any, make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    body = {"error": "incorrect_client_credentials", "error_description": f"{CREDENTIALS} {SECRET}"}
    scripted_server.token = answer(200, body, {"Content-Type": "application/json"})
    scripted_server.answers = [scripted_server.token]
    settings = {"client_secret": SECRET, "connection_id": "shop"}
    if call.name == "app_token":
        settings["token_url"] = f"{scripted_server.url}/token"
    send = make_send(scripted_server.settings(**settings), longest_wait=0)
    with pytest.raises(errors.AuthenticationError) as error_info:
        send(call)
    error = error_info.value
    assert f"(incorrect_client_credentials): {CREDENTIALS} ***" in str(error)
    assert (error.status, error.code) == (200, "incorrect_client_credentials")
    assert error.answer == {**body, "error_description": f"{CREDENTIALS} ***"}
    assert "correct its Client ID (login) and Client secret (password)" in error.fix


def test_no_token_is_kept_of_an_answer_that_cannot_be_used(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    tokens = {"access_token": 5, "refresh_token": "a-new-token", "data": {"access_token": "a-new-token"}}
    for body, error_body in ((tokens, None), ({**tokens, "error": "e"}, {"error": "e"})):
        scripted_server.token = answer(200, body)
        error = token_error_of(make_send, scripted_server, api.get_inbox(SOME_ID))
        assert error.answer == error_body
        assert "a-new-token" not in f"{error}{vars(error)}"


@pytest.mark.parametrize("token", ["", None, 5, "a b\n", "\u00e9"])
def test_a_token_that_cannot_be_sent_is_none(
    token: Any, make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    scripted_server.token = answer(200, {"access_token": token, "expires_in": 60})
    error = token_error_of(make_send, scripted_server, api.get_inbox(SOME_ID))
    assert str(error) == "the token endpoint answered without a usable access_token"
    assert isinstance(error, errors.AuthenticationError)


@pytest.mark.parametrize(
    ("call", "body", "text"),
    [
        (
            api.lease_messages(SOME_ID),
            {"errors": [{"code": "quota", "detail": f"quota exceeded {SECRET}"}]},
            "lease_messages: the answer with status 200 has a body that is not an object with a list of"
            " results (quota): quota exceeded ***",
        ),
        (
            api.guess("an order"),
            {"messages": [{"detail": "no app"}]},
            "guess: the answer with status 200 has a body that is not a guess with title, steps and"
            " prefilled_url: no app",
        ),
        (
            api.get_inbox(SOME_ID),
            {"detail": "d" * 70_000},
            "get_inbox: the answer with status 200 has a body that is not an inbox with an id and a status",
        ),
    ],
)
def test_a_reason_in_a_success_that_is_none_is_named(
    call: Any, body: Any, text: str, make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    scripted_server.answers = [answer(200, body, {"Content-Type": "application/json"})]
    assert str(token_error_of(make_send, scripted_server, call)) == text
