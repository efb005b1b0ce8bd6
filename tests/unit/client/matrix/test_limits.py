"""429 and 503, with each form of ``Retry-After`` and of the reset header (docs/service.md 15)."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import formatdate

import pytest

from airflow_provider_workflow.client import errors
from tests.unit.client.matrix.cells import ATTEMPTS, STEPS, Outcome, Service, by, check, repeated
from tests.unit.client.scripted import answer
from tests.unit.client.senders import SENDERS
from tests.unit.fake_clock import FakeClock

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


@dataclass(frozen=True)
class Form:
    """
    How a service says when to come again.

    :param headers: beside ``Date``.
    :param seconds: what that means; None for nothing.
    """

    headers: dict[str, str]
    seconds: float | None


FORMS: dict[str, Form] = {
    "nothing": Form({}, None),
    "seconds": Form({"Retry-After": "30"}, 30),
    "seconds and a fraction": Form({"Retry-After": "7.5"}, 7.5),
    "no seconds": Form({"Retry-After": "0"}, 0),
    "a date": Form({"Retry-After": http_date(30)}, 30),
    "a date that is over": Form({"Retry-After": http_date(-30)}, 0),
    "a date of the old form": Form({"Retry-After": "Wednesday, 18-May-33 03:33:50 GMT"}, 30),
    "a date that is none": Form({"Retry-After": "Someday, 99 Foo 2099 25:61:61 GMT"}, None),
    "a word": Form({"Retry-After": "soon"}, None),
    "an empty value": Form({"Retry-After": ""}, None),
    "a negative number": Form({"Retry-After": "-30"}, 0),
    "not a number": Form({"Retry-After": "nan"}, None),
    "infinity": Form({"Retry-After": "inf"}, None),
    "an hour": Form({"Retry-After": "3600"}, 900),
    "an epoch in the wrong place": Form({"Retry-After": f"{EPOCH}"}, 900),
    "more seconds than the universe has": Form({"Retry-After": "9" * 30}, 900),
    "milliseconds in place of seconds": Form({"Retry-After": "30000"}, 900),
    "a date in another century": Form({"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}, 900),
    "a window of an hour": Form(window(3600), 900),
    "a reset in epoch seconds": Form(window(EPOCH + 30), 30),
    "a reset in epoch seconds that is over": Form(window(EPOCH - 30), 0),
    "a reset in seconds": Form(window(30), 30),
    "a reset of a word": Form(window("soon"), None),
    "a reset that is negative": Form(window(-30), 0),
    "a reset while requests are left": Form(window(30, remaining=1), None),
    "a reset without a remainder": Form({"X-RateLimit-Reset": "30"}, None),
    "a reset that contradicts": Form({"Retry-After": "2", **window(30)}, 2),
}


def complaint(name: str, status: int, form: Form, outcome: Outcome) -> str:
    """What is wrong with what came of a call that is told the same every time."""
    kind = errors.RateLimitError if status == 429 else errors.ServerError
    if type(outcome.error) is not kind:
        return f"{kind.__name__} was due, not {outcome.error!r}"
    found = []
    if outcome.error.retry_after != form.seconds:
        found.append(f"it is to come again after {outcome.error.retry_after} s, not {form.seconds}")
    too_long = form.seconds is not None and form.seconds > LONGEST
    sent = by(outcome.kind, 1 if too_long else ATTEMPTS if status == 429 else repeated(name))
    if outcome.sent != sent:
        found.append(f"sent {outcome.sent} times and not {sent}")
    asked = (form.seconds or 0) * (sent - 1)
    if not asked - 0.001 <= sum(outcome.naps) <= asked + BACKOFF:
        found.append(f"waited {sum(outcome.naps)} s, and was asked for {asked}")
    return "; ".join(found)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((STEPS, name) for name in ("get_inbox", "lease_messages", "app_token")),
        *((k, "guess") for k in SENDERS),
    ],
)
def test_a_service_that_is_busy_is_given_the_time_that_it_asks_for(
    kind: str, name: str, service: Service
) -> None:
    found = {}
    for status in (429, 503):
        for title, form in FORMS.items():
            reply = answer(status, b"", {"Date": http_date(0), **form.headers})
            outcome = service.play(kind, name, reply)
            found[f"{status}, {title}"] = complaint(name, status, form, outcome)
    check(found)


@pytest.mark.parametrize("ahead", [-3600, 0, 3600], ids=["an hour slow", "right", "an hour fast"])
def test_a_clock_that_is_wrong_by_an_hour_waits_no_other_time(ahead: int, service: Service) -> None:
    found = {}
    for title, form in FORMS.items():
        reply = answer(429, b"", {"Date": http_date(0), **form.headers})
        outcome = service.play(STEPS, "lease_messages", reply, clock=FakeClock(EPOCH + ahead))
        found[title] = complaint("lease_messages", 429, form, outcome)
    check(found)


@pytest.mark.parametrize("ahead", [-3600, 3600], ids=["an hour slow", "an hour fast"])
def test_without_a_date_of_the_service_a_wrong_clock_is_all_there_is(ahead: int, service: Service) -> None:
    for headers in ({"Retry-After": http_date(30)}, window(EPOCH + 30)):
        reply = answer(429, b"", headers)
        outcome = service.play(STEPS, "get_inbox", reply, longest_wait=60, clock=FakeClock(EPOCH + ahead))
        assert isinstance(outcome.error, errors.RateLimitError)
        # Never less than nothing; and where it is too long a task says so instead of holding its slot.
        assert outcome.error.retry_after == (900 if ahead < 0 else 0)
        assert outcome.sent == (1 if ahead < 0 else ATTEMPTS)


@pytest.mark.specification("15 429, 503")
@pytest.mark.parametrize("kind", SENDERS)
def test_the_rate_headers_come_with_the_error(kind: str, service: Service) -> None:
    for status in (429, 503):
        outcome = service.play(kind, "guess", answer(status, b"", {"Retry-After": "7", **window(9)}))
        assert isinstance(outcome.error, errors.WorkflowAPIError)
        assert outcome.error.retry_after == 7
        assert outcome.error.rate_limit == errors.RateLimit(100, 0, 9)


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages", "unenroll_promotion"])
def test_a_token_endpoint_that_is_busy_is_waited_for_by_whoever_needs_a_token(
    name: str, service: Service
) -> None:
    busy = answer(429, b"", {"Retry-After": "30"})
    outcome = service.play(STEPS, name, b"", token=busy, warm=False)
    assert isinstance(outcome.error, errors.RateLimitError)
    assert "The request for an access token was answered with 429" in str(outcome.error)
    assert (outcome.sent, len(outcome.token_requests)) == (0, ATTEMPTS)
    assert 119.999 <= sum(outcome.naps) <= 120 + BACKOFF
