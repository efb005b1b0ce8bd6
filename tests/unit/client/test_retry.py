"""Retries and rate gates: which calls are repeated, when, and how long calls wait."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
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
from tests.unit.client.calls import make, operation
from tests.unit.client.conftest import MakeSender
from tests.unit.client.matrix.cells import CALLS, SENT_ONCE
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.client.senders import Sender, SyncSender
from tests.unit.fake_clock import FakeClock

ATTEMPTS = 5


@pytest.fixture
def send(settings: Settings) -> Iterator[Sender]:
    """A sender of a task: triggers send each call once."""
    sender = SyncSender(settings)
    yield sender
    sender.close()


@pytest.fixture
def gates(fake_clock: FakeClock) -> Gates:
    return Gates()


def test_the_calls_that_are_sent_once_are_these() -> None:
    assert {name for name in CALLS if not make(name).repeatable} == SENT_ONCE


def attempts(send: Sender, name: str, inbox_id: str) -> int:
    """Send a call that fails every time; how many attempts it was given."""
    with pytest.raises(errors.WorkflowError) as raised:
        send(make(name, inbox_id))
    assert raised.value.may_repeat is False
    return len(send.naps) + 1


def test_a_call_succeeds_after_the_faults_are_over(send: Sender, emulator: EmulatorServer) -> None:
    inbox_id = emulator.open_inbox("orders")
    emulator.fault("status", operation="get_inbox", status=503, times=4)
    assert send(api.get_inbox(inbox_id))["name"] == "orders"
    assert emulator.count("get_inbox") == ATTEMPTS


def test_the_pauses_between_attempts_grow_and_are_capped(send: Sender, emulator: EmulatorServer) -> None:
    emulator.fault("status", operation="get_inbox", status=500, times=None)
    attempts(send, "get_inbox", "i")
    assert all(0 <= nap <= ceiling for nap, ceiling in zip(send.naps, (1, 2, 4, 8), strict=True))


@pytest.mark.parametrize("name", ["get_inbox", "lease_messages"])
def test_a_failing_token_endpoint_does_not_multiply_attempts(
    name: str, send: Sender, emulator: EmulatorServer
) -> None:
    emulator.fault("status", operation="token", status=503, times=None)
    assert attempts(send, name, "i") == ATTEMPTS
    assert emulator.count("token") == ATTEMPTS
    assert emulator.count(operation(name)) == 0


def test_an_acknowledgement_whose_answer_was_lost_is_no_error(send: Sender, emulator: EmulatorServer) -> None:
    emulator.put("orders", {})
    inbox_id = emulator.open_inbox("orders")
    lease = send(api.lease_messages(inbox_id))
    emulator.fault("drop", operation="ack", when="after")
    assert send(api.acknowledge_messages(inbox_id, str(lease["lease_id"])))["acked_id"] is None
    assert emulator.summary("orders")["counters"]["acks"] == 1


SETTINGS = Settings("https://a", "an-id", "a-secret", "https://a/token")
EPOCH = 2_000_000_000
PAGE = {"results": [], "next": None}


@pytest.mark.parametrize(
    "reset",
    [
        {"X-RateLimit-Reset": "30"},
        {"X-RateLimit-Reset": str(EPOCH + 30), "Date": formatdate(EPOCH, usegmt=True)},
    ],
)
def test_a_success_that_used_the_window_up_closes_the_gate(
    reset: dict[str, str], make_send: MakeSender, scripted: ScriptedServer
) -> None:
    scripted.answers = [answer(200, PAGE, {"X-RateLimit-Remaining": "0", **reset}), answer(200, PAGE)]
    send = make_send(scripted.settings())
    send(api.list_inboxes())
    assert send.naps == []
    send(api.list_inboxes())
    assert sum(send.naps) == pytest.approx(30)


@pytest.mark.parametrize("limited", ["guess", "list_templates", "unenroll_promotion", "get_inbox"])
def test_one_family_never_delays_another(limited: str, send: Sender, emulator: EmulatorServer) -> None:
    inbox_id = emulator.open_inbox("orders")
    emulator.fault(
        "status", operation=operation(limited), status=429, headers={"Retry-After": "50"}, times=None
    )
    with pytest.raises(errors.RateLimitError):
        send(make(limited, inbox_id))
    before = len(send.naps)
    others = {"guess", "list_templates", "unenroll_promotion", "list_inboxes"} - {limited}
    for name in sorted(others - ({"list_inboxes"} if limited == "get_inbox" else set())):
        send(make(name, inbox_id))
    assert len(send.naps) == before


def test_a_limit_of_the_token_endpoint_holds_calls_only_while_they_need_a_token(
    send: Sender, emulator: EmulatorServer
) -> None:
    emulator.fault("status", operation="token", status=429, headers={"Retry-After": "20"})
    with contextlib.suppress(errors.RateLimitError):  # a trigger sends it once
        send(api.list_inboxes())
    send(api.list_inboxes())
    assert sum(send.naps) == pytest.approx(20)
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
def test_token_endpoints_clients_and_hosts_have_gates_of_their_own(
    family: Family, change: dict[str, Any], gates: Gates
) -> None:
    gates.close(SETTINGS, family, 20)
    assert gates.delay(SETTINGS, family) == 20
    assert gates.delay(replace(SETTINGS, **change), family) == 0


def test_all_clients_of_a_process_share_their_gates(settings: Settings, emulator: EmulatorServer) -> None:
    emulator.fault("status", operation="list_inboxes", status=429, headers={"Retry-After": "61"})
    for status in (429, 0):
        with WorkflowClient(settings) as client, pytest.raises(errors.RateLimitError) as raised:
            client.send(api.list_inboxes())
        assert raised.value.status == status
    assert emulator.count("list_inboxes") == 1


def test_a_wait_over_a_minute_is_raised_by_whoever_sends(
    make_send: MakeSender, settings: Settings, emulator: EmulatorServer
) -> None:
    emulator.fault(
        "status", operation="list_inboxes", status=429, code="limited", headers={"Retry-After": "600"}
    )
    send = make_send(settings)
    with pytest.raises(errors.RateLimitError) as raised:
        send(api.list_inboxes())
    assert (raised.value.status, raised.value.code, raised.value.retry_after) == (429, "limited", 600)
    with pytest.raises(
        errors.RateLimitError, match=r"list_inboxes was not sent: .* no inbox calls for 600 s"
    ):
        send(api.list_inboxes())
    assert send.naps == []
    assert emulator.count("list_inboxes") == 1


def test_a_failing_service_that_wants_a_long_rest_is_not_asked_again_in_a_task(
    settings: Settings, emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    emulator.fault("status", operation="list_inboxes", status=503, headers={"Retry-After": "3600"})
    with WorkflowClient(settings) as client, pytest.raises(errors.ServerError):
        client.send(api.list_inboxes())
    assert fake_clock.slept == []


def test_a_minute_is_waited_in_a_task(
    settings: Settings, emulator: EmulatorServer, fake_clock: FakeClock
) -> None:
    emulator.fault("status", operation="list_inboxes", status=429, headers={"Retry-After": "60"})
    with WorkflowClient(settings) as client:
        client.send(api.list_inboxes())
    assert sum(fake_clock.slept) == pytest.approx(60)


def test_a_gate_that_closes_again_is_waited_for_again(fake_clock: FakeClock, gates: Gates) -> None:
    gates.close(SETTINGS, Family.INBOX, 10)
    lease = WorkflowClient(SETTINGS, gates=gates).attempt(make("lease_messages"))
    assert next(lease) == Pause(10)
    fake_clock.advance(10)
    gates.close(SETTINGS, Family.INBOX, 5)
    assert next(lease) == Pause(5)


def test_a_gate_is_never_opened_earlier(gates: Gates) -> None:
    gates.close(SETTINGS, Family.GUESS, 100)
    gates.close(SETTINGS, Family.GUESS, 1)
    assert gates.delay(SETTINGS, Family.GUESS) == 100


@pytest.mark.parametrize("status", [200, 202, 400, 500, 502])
def test_retry_after_delays_no_calls_with_a_status_other_than_429_and_503(
    status: int, make_send: MakeSender, scripted: ScriptedServer
) -> None:
    scripted.answers = [answer(status, PAGE, {"Retry-After": "30"}), answer(200, PAGE)]
    send = make_send(scripted.settings())
    with contextlib.suppress(errors.WorkflowError):
        send(api.list_inboxes())
    send(api.list_inboxes())
    assert 30 not in send.naps


@pytest.mark.parametrize("form", ["epoch", "delta"])
def test_a_window_that_is_used_up_is_waited_out(form: str, send: Sender, emulator: EmulatorServer) -> None:
    emulator.store.configure(reset_header=form, rate_limit=1, rate_window_seconds=30)
    send(api.list_inboxes())
    emulator.store.clock.advance(31)
    send(api.list_inboxes())
    assert sum(send.naps) == pytest.approx(30)


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


def told_to_wait(gates: Gates, seconds: str, times: int = 1) -> None:
    """Some calls that are under way at once, each told to wait."""
    client = WorkflowClient(SETTINGS, gates=gates)
    calls = [client.attempt(api.list_templates(None)) for _ in range(times)]
    for call in calls:
        next(call)
    for call in calls:
        with pytest.raises(RateLimitError):
            call.send(Answer(429, {"retry-after": seconds}, b""))


@pytest.mark.parametrize("seconds", ["30000", "1900000000", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_a_wait_that_is_not_believed_ends_after_fifteen_minutes_and_is_logged(
    seconds: str, gates: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    told_to_wait(gates, seconds)

    assert gates.delay(SETTINGS, Family.TEMPLATES) == BELIEVED_WAIT_SECONDS == 900
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "they are sent again after 900 s, the maximum wait" in record.getMessage()


def test_it_is_logged_once_for_all_calls_that_were_under_way(
    fake_clock: FakeClock, gates: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    told_to_wait(gates, "3600", times=3)
    assert caplog.text.count("requests no templates calls for 3600 s") == 1

    fake_clock.advance(901)
    told_to_wait(gates, "3600", times=3)
    assert caplog.text.count("requests no templates calls for 3600 s") == 2


def test_a_wait_that_is_believed_is_logged_by_whoever_waits_alone(
    gates: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    told_to_wait(gates, "900")

    assert caplog.text == ""
