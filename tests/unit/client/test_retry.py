"""Retries and rate gates: which calls are repeated, when, and how long calls wait."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.call import PROMOTIONS_SCOPE, Family
from airflow_provider_workflow.client.errors import MAX_WAIT_SECONDS, RateLimitError, WorkflowAPIError
from airflow_provider_workflow.client.exchange import GATES
from airflow_provider_workflow.client.http_messages import Answer
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.sync_client import WorkflowClient
from airflow_provider_workflow.client.tokens import AccessToken, TokenCache, token_key
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import make
from tests.unit.client.conftest import MakeSender
from tests.unit.client.endpoint import Endpoint, Reply, ok
from tests.unit.client.matrix.cells import CALLS, SENT_ONCE
from tests.unit.client.scripted_server import ScriptedServer, answer
from tests.unit.client.senders import Sender, SyncSender
from tests.unit.fake_clock import FakeClock


@pytest.fixture
def send(settings: Settings) -> Iterator[Sender]:
    """A sender of a task: triggers send each call once."""
    with closing(SyncSender(settings)) as sender:
        yield sender


def test_the_calls_that_are_sent_once_are_these() -> None:
    assert {name for name in CALLS if not make(name).repeatable} == SENT_ONCE


def test_the_pauses_between_attempts_grow_and_are_capped(send: Sender, emulator: EmulatorServer) -> None:
    emulator.fault("status", operation="get_inbox", status=500, times=None)
    with pytest.raises(errors.ServerError) as error_info:
        send(make("get_inbox"))
    assert error_info.value.may_repeat is False
    assert all(0 <= nap <= ceiling for nap, ceiling in zip(send.naps, (1, 2, 4, 8), strict=True))


SETTINGS = Settings("https://a", "an-id", "a-secret", "https://a/token", scope="a-scope")
OF_FAMILY = {
    Family.GUESS: make("guess"),
    Family.TEMPLATES: make("list_templates"),
    Family.INBOX: make("get_inbox"),
    Family.TOKEN: make("app_token"),
    Family.PROMOTIONS: make("unenroll_promotion"),
}
PAGE = {"results": [], "next": None}


@pytest.fixture
def endpoint(cache: TokenCache) -> Endpoint:
    return Endpoint(cache)


def send_to(endpoint: Endpoint, family: Family, reply: Reply, **change: Any) -> None:
    """Send a call of a family, which has a token if it needs one."""
    settings = replace(SETTINGS, **change)
    for scope in (settings.scope, PROMOTIONS_SCOPE):
        endpoint.cache.put(token_key(settings, scope), AccessToken("a-token", math.inf, math.inf))
    endpoint.replies = [reply]
    endpoint.client(settings).send(OF_FAMILY[family])


def limited(seconds: float) -> Answer:
    """An answer that closes the gate of its call."""
    return Answer(429, {"retry-after": f"{seconds:.0f}"}, b"")


def close(endpoint: Endpoint, family: Family, seconds: float) -> None:
    with pytest.raises(RateLimitError):
        send_to(endpoint, family, limited(seconds))


def test_a_success_that_used_the_window_up_closes_the_gate(
    make_send: MakeSender, scripted_server: ScriptedServer
) -> None:
    window = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"}
    scripted_server.answers = [answer(200, PAGE, window), answer(200, PAGE)]
    send = make_send(scripted_server.settings())
    send(api.list_inboxes())
    assert send.naps == []
    send(api.list_inboxes())
    assert sum(send.naps) == pytest.approx(30)


def test_a_limit_of_the_token_endpoint_holds_calls_only_while_they_need_a_token(
    send: Sender, emulator: EmulatorServer
) -> None:
    emulator.fault("status", operation="token", status=429, headers={"Retry-After": "20"})
    for _ in range(2):
        send(api.list_inboxes())
        assert sum(send.naps) == pytest.approx(20)


@pytest.mark.parametrize(
    ("family", "change"),
    [
        (Family.TOKEN, {"token_url": "https://a/other"}),
        (Family.INBOX, {"client_id": "x"}),
        (Family.INBOX, {"base_url": "https://b"}),
    ],
)
def test_families_token_endpoints_clients_and_hosts_have_gates_of_their_own(
    family: Family, change: dict[str, Any], endpoint: Endpoint, fake_clock: FakeClock
) -> None:
    def waited(other: Family, **change: Any) -> list[float]:
        """How long a call waits at the gate that a call of the family has closed."""
        GATES.clear()
        close(endpoint, family, 20)
        fake_clock.slept.clear()
        with pytest.raises(WorkflowAPIError):
            send_to(endpoint, other, Answer(404, {}, b""), **change)
        return fake_clock.slept

    assert {other for other in Family if waited(other) == [20]} == {family}
    assert waited(family, **change) == []


def test_a_wait_over_a_minute_is_raised_by_all_clients_of_a_process(
    settings: Settings, emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    wait = {"Retry-After": "61"}
    emulator.fault("status", operation="list_inboxes", status=429, code="limited", headers=wait)
    with WorkflowClient(settings) as first, pytest.raises(errors.RateLimitError) as error_info:
        first.send(api.list_inboxes())
    assert (error_info.value.status, error_info.value.code, error_info.value.retry_after) == (
        429,
        "limited",
        61,
    )
    text = r"list_inboxes was not sent: .* no inbox calls for 61 s"
    with WorkflowClient(settings) as second, pytest.raises(errors.RateLimitError, match=text) as unsent:
        second.send(api.list_inboxes())
    assert unsent.value.status == 0
    assert fake_clock.slept == []
    assert emulator.count("list_inboxes") == 1


def test_a_gate_is_never_opened_earlier_and_waited_for_again_if_it_closes(
    endpoint: Endpoint, fake_clock: FakeClock
) -> None:
    other = Endpoint(endpoint.cache)

    def meanwhile_limited_for_longer() -> Answer:
        close(other, Family.TEMPLATES, 60)
        return limited(1)

    with pytest.raises(RateLimitError):
        send_to(endpoint, Family.TEMPLATES, meanwhile_limited_for_longer)
    fake_clock.then(lambda: close(other, Family.TEMPLATES, 5))
    send_to(endpoint, Family.TEMPLATES, ok([]))
    assert fake_clock.slept == [60, 5]


@pytest.fixture(params=["America/New_York", "Asia/Tokyo"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The process has this local time zone."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    "form",
    [
        "%a, %d %b %Y %H:%M:%S GMT",
        "%a %b %d %H:%M:%S %Y",
        "%a, %d %b %Y %H:%M:%S",
        "%a, %d %b %Y %H:%M:%S -0000",
    ],
)
def test_a_date_of_the_service_without_a_zone_is_in_utc(form: str) -> None:
    sent_at, opens_at = (time.strftime(form, time.gmtime(seconds)) for seconds in (2e9, 2e9 + 60))
    for date in (sent_at, "Wed, 18 May 2033 03:33:20 GMT"):
        assert Answer(429, {"retry-after": opens_at, "date": date}, b"").retry_after() == 60


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "nan",
        "-5",
        "1e5",
        "9" * 400,
        "\0",
        "Wed, 99 May 2033 03:33:20 GMT",
        "1 May 99999999999 03:33",
    ],
)
def test_no_value_of_a_header_is_a_crash(value: str) -> None:
    names = ("retry-after", "date", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")
    for headers in (dict.fromkeys(names, value), {"retry-after": value}, {"retry-after": "5", "date": value}):
        seconds = Answer(429, headers, b"").retry_after()
        assert seconds is None or 0 <= seconds <= 1e12


@pytest.mark.parametrize("status", [202, 500])
def test_retry_after_delays_no_calls_with_a_status_other_than_429_and_503(
    status: int, scripted_server: ScriptedServer
) -> None:
    scripted_server.answers = [answer(status, PAGE, {"Retry-After": "30"}), answer(200, PAGE)]
    with closing(SyncSender(scripted_server.settings())) as send:
        for _ in range(2):
            send(api.list_inboxes())
    assert sum(send.naps) <= 1


def test_a_client_in_a_hurry_sends_once_and_waits_at_no_gate(
    scripted_server: ScriptedServer, fake_clock: FakeClock
) -> None:
    with WorkflowClient(scripted_server.settings(), attempts=1, longest_wait=0.0) as client:
        scripted_server.script(answer(503), answer(429, headers={"Retry-After": "9"}), answer(200, PAGE))
        with pytest.raises(errors.ServerError):
            client.send(api.list_inboxes())
        for _ in range(2):
            with pytest.raises(errors.RateLimitError):
                client.send(api.list_inboxes())
    assert len(scripted_server.requests) == 2
    assert fake_clock.slept == []


@pytest.mark.parametrize(("requested", "waited_seconds"), [(3600, 3600), (3601, 3600), (1e11, 3600)])
def test_a_wait_of_up_to_an_hour_is_believed_and_the_error_has_what_was_sent(
    requested: float, waited_seconds: float, endpoint: Endpoint, fake_clock: FakeClock
) -> None:
    with pytest.raises(RateLimitError) as error_info:
        send_to(endpoint, Family.TEMPLATES, limited(requested))
    assert error_info.value.retry_after == requested
    assert errors.requested_wait(error_info.value) == waited_seconds <= MAX_WAIT_SECONDS

    with pytest.raises(RateLimitError) as unsent:
        send_to(endpoint, Family.TEMPLATES, ok([]))
    assert unsent.value.retry_after == waited_seconds
    fake_clock.advance(waited_seconds)
    send_to(endpoint, Family.TEMPLATES, ok([]))
    assert fake_clock.slept == []
