"""What the rate headers and ``Retry-After`` mean, in every form they come in."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.client.errors import RateLimit
from airflow_provider_workflow.client.over_requests import causes
from airflow_provider_workflow.client.wire import Answer, Request, host_of
from tests.unit.fake_clock import FakeClock

NOON = 1_767_268_800
DATE = formatdate(NOON, usegmt=True)


def answer(**headers: object) -> Answer:
    return Answer(429, {name.replace("_", "-"): str(value) for name, value in headers.items()}, b"")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "900"}, 900.0),
        ({"retry_after": "901"}, 900.0),
        ({"retry_after": " 7.5 "}, 7.5),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after": "soon"}, None),
        ({"retry_after": ""}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after": formatdate(NOON + 90, usegmt=True), "date": DATE}, 90.0),
        ({"retry_after": formatdate(NOON - 90, usegmt=True), "date": DATE}, 0.0),
        ({"x_ratelimit_remaining": 0, "x_ratelimit_reset": 30}, 30.0),
        ({"x_ratelimit_remaining": 0, "x_ratelimit_reset": NOON + 30, "date": DATE}, 30.0),
        ({"x_ratelimit_remaining": 0, "x_ratelimit_reset": NOON - 30, "date": DATE}, 0.0),
        ({"x_ratelimit_remaining": 1, "x_ratelimit_reset": 30}, None),
        ({"x_ratelimit_remaining": 0}, None),
        ({"retry_after": "2", "x_ratelimit_remaining": 0, "x_ratelimit_reset": 30}, 2.0),
    ],
)
def test_how_long_to_stay_away(headers: dict[str, object], seconds: float | None) -> None:
    assert answer(**headers).retry_after() == seconds


@pytest.mark.parametrize("status", [200, 201, 202, 302, 400, 404, 500, 502, 504])
def test_retry_after_counts_with_429_and_503_alone_and_a_spent_window_with_any_status(status: int) -> None:
    assert Answer(503, {"retry-after": "7"}, b"").retry_after() == 7.0
    assert Answer(status, {"retry-after": "7"}, b"").retry_after() is None
    spent = {"retry-after": "7", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "30"}
    assert Answer(status, spent, b"").retry_after() == 30.0


def test_a_wrong_clock_of_ours_does_no_harm(fake_clock: FakeClock) -> None:
    fake_clock.set(0)
    limited = answer(retry_after=formatdate(NOON + 5, usegmt=True), date=DATE)
    assert limited.retry_after() == 5.0
    assert answer(x_ratelimit_reset=NOON + 5, date=DATE).rate_limit() == RateLimit(None, None, 5.0)


def test_our_own_clock_counts_where_the_service_names_no_date(fake_clock: FakeClock) -> None:
    fake_clock.set(NOON)
    assert answer(x_ratelimit_reset=NOON + 5).rate_limit() == RateLimit(None, None, 5.0)
    assert answer(x_ratelimit_reset=NOON + 5, date="yesterday").rate_limit() == RateLimit(None, None, 5.0)


def test_rate_headers_are_none_where_none_came() -> None:
    assert answer().rate_limit() is None
    assert answer(x_ratelimit_limit="many").rate_limit() is None
    assert answer(x_ratelimit_limit=100, x_ratelimit_remaining=99).rate_limit() == RateLimit(100, 99, None)


@given(value=st.text(max_size=30))
def test_no_header_value_is_a_crash(value: str) -> None:
    headers = {
        "retry-after": value,
        "date": value,
        "x-ratelimit-reset": value,
        "x-ratelimit-remaining": value,
    }
    seconds = Answer(429, headers, b"").retry_after()
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.example.com/v2/guess?client_id=x", "api.example.com"),
        ("http://user:pw@host:81/", "host:81"),
        ("http://[::1]:81/", "[::1]:81"),
    ],
)
def test_an_address_is_named_by_its_host_alone(url: str, name: str) -> None:
    assert host_of(url) == name


def test_headers_and_body_stay_out_of_the_repr() -> None:
    request = Request(
        "GET", "https://a", {"q": "hush"}, {"Authorization": "hush"}, b"hush", 1.0, "http://me:hush@proxy"
    )
    assert "hush" not in repr(request)
    assert "hush" not in repr(Answer(200, {"x": "hush"}, b"hush"))


def test_the_causes_of_an_error_are_found_however_they_are_nested() -> None:
    innermost = OSError("refused")
    middle = RuntimeError("pool", innermost)
    outer = ValueError("outer")
    outer.__cause__ = middle
    assert causes(outer) == [outer, middle, innermost]


def test_errors_that_cause_each_other_are_no_endless_chain() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert causes(first) == [first, second]
