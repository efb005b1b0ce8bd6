"""Retries and rate gates: which calls are repeated, when, and how long calls wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.call import Family, Pause
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.errors import RateLimitError
from airflow_provider_workflow.client.exchange import Gates
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.client.wire import BELIEVED_WAIT_SECONDS, Answer
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import make
from tests.unit.client.conftest import MakeSender
from tests.unit.client.matrix.cells import CALLS, SENT_ONCE
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.client.senders import Sender, SyncSender
from tests.unit.fake_clock import FakeClock


@pytest.fixture
def send(settings: Settings) -> Iterator[Sender]:
    """A sender of a task: triggers send each call once."""
    with closing(SyncSender(settings)) as sender:
        yield sender


@pytest.fixture
def gates(fake_clock: FakeClock) -> Gates:
    return Gates()


def test_the_calls_that_are_sent_once_are_these() -> None:
    assert {name for name in CALLS if not make(name).repeatable} == SENT_ONCE


def test_the_pauses_between_attempts_grow_and_are_capped(send: Sender, emulator: EmulatorServer) -> None:
    emulator.fault("status", operation="get_inbox", status=500, times=None)
    with pytest.raises(errors.ServerError) as raised:
        send(make("get_inbox"))
    assert raised.value.may_repeat is False
    assert all(0 <= nap <= ceiling for nap, ceiling in zip(send.naps, (1, 2, 4, 8), strict=True))


SETTINGS = Settings("https://a", "an-id", "a-secret", "https://a/token")
PAGE = {"results": [], "next": None}


def test_a_success_that_used_the_window_up_closes_the_gate(
    make_send: MakeSender, scripted: ScriptedServer
) -> None:
    window = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"}
    scripted.answers = [answer(200, PAGE, window), answer(200, PAGE)]
    send = make_send(scripted.settings())
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
    family: Family, change: dict[str, Any], gates: Gates
) -> None:
    gates.close(SETTINGS, family, 20)
    assert gates.delay(SETTINGS, family) == 20
    assert not any(gates.delay(SETTINGS, other) for other in Family if other is not family)
    assert gates.delay(replace(SETTINGS, **change), family) == 0


def test_a_wait_over_a_minute_is_raised_by_all_clients_of_a_process(
    settings: Settings, emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    wait = {"Retry-After": "61"}
    emulator.fault("status", operation="list_inboxes", status=429, code="limited", headers=wait)
    with WorkflowClient(settings) as first, pytest.raises(errors.RateLimitError) as answered:
        first.send(api.list_inboxes())
    assert (answered.value.status, answered.value.code, answered.value.retry_after) == (429, "limited", 61)
    text = r"list_inboxes was not sent: .* no inbox calls for 61 s"
    with WorkflowClient(settings) as second, pytest.raises(errors.RateLimitError, match=text) as unsent:
        second.send(api.list_inboxes())
    assert unsent.value.status == 0
    assert fake_clock.slept == []
    assert emulator.count("list_inboxes") == 1


def test_a_gate_that_closes_again_is_waited_for_again(fake_clock: FakeClock, gates: Gates) -> None:
    gates.close(SETTINGS, Family.INBOX, 60)
    lease = WorkflowClient(SETTINGS, gates=gates).attempt(make("lease_messages"))
    assert next(lease) == Pause(60)
    fake_clock.advance(60)
    gates.close(SETTINGS, Family.INBOX, 5)
    assert next(lease) == Pause(5)


def test_a_gate_is_never_opened_earlier(gates: Gates) -> None:
    gates.close(SETTINGS, Family.GUESS, 100)
    gates.close(SETTINGS, Family.GUESS, 1)
    assert gates.delay(SETTINGS, Family.GUESS) == 100


@pytest.mark.parametrize("status", [202, 500])
def test_retry_after_delays_no_calls_with_a_status_other_than_429_and_503(
    status: int, scripted: ScriptedServer
) -> None:
    scripted.answers = [answer(status, PAGE, {"Retry-After": "30"}), answer(200, PAGE)]
    with closing(SyncSender(scripted.settings())) as send:
        for _ in range(2):
            send(api.list_inboxes())
    assert sum(send.naps) <= 1


def test_a_client_in_a_hurry_sends_once_and_waits_at_no_gate(
    scripted: ScriptedServer, fake_clock: FakeClock
) -> None:
    with WorkflowClient(scripted.settings(), gates=Gates(), attempts=1, longest_wait=0.0) as client:
        scripted.script(answer(503), answer(429, headers={"Retry-After": "9"}), answer(200, PAGE))
        with pytest.raises(errors.ServerError):
            client.send(api.list_inboxes())
        for _ in range(2):
            with pytest.raises(errors.RateLimitError):
                client.send(api.list_inboxes())
    assert len(scripted.requests) == 2
    assert fake_clock.slept == []


@pytest.mark.usefixtures("fake_clock")
def test_a_wait_that_is_not_believed_ends_after_fifteen_minutes(gates: Gates) -> None:
    call = WorkflowClient(SETTINGS, gates=gates).attempt(api.list_templates(None))
    next(call)
    with pytest.raises(RateLimitError):
        call.send(Answer(429, {"retry-after": "3600"}, b""))
    assert gates.delay(SETTINGS, Family.TEMPLATES) == BELIEVED_WAIT_SECONDS == 900
