"""Rate gates: who waits, how long, and who does not have to."""

from __future__ import annotations

import contextlib
from email.utils import formatdate

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.call import Family, Pause
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.exchange import Gates
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import make, operation
from tests.unit.client.conftest import MakeSender
from tests.unit.client.scripted import ScriptedServer, answer
from tests.unit.client.senders import Sender
from tests.unit.fake_clock import FakeClock

SETTINGS = Settings("https://a", "an-id", "a-secret", "https://a/token")
EPOCH = 2_000_000_000
DATE = formatdate(EPOCH, usegmt=True)
FORMS: dict[str, dict[str, str]] = {
    "a reset in epoch seconds": {
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": str(EPOCH + 30),
        "Date": DATE,
    },
    "a reset in seconds": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30"},
}
PAGE = {"results": [], "next": None}


@pytest.mark.parametrize("form", FORMS)
def test_a_success_that_used_the_window_up_closes_the_gate(
    form: str, make_send: MakeSender, scripted: ScriptedServer
) -> None:
    scripted.answers = [answer(200, PAGE, FORMS[form]), answer(200, PAGE)]
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


def test_two_token_endpoints_of_one_service_do_not_delay_each_other() -> None:
    gates = Gates()
    other = Settings(**{**vars(SETTINGS), "token_url": "https://a/other"})
    gates.close(SETTINGS, Family.TOKEN, 20)

    assert gates.delay(SETTINGS, Family.TOKEN) == pytest.approx(20, abs=1)
    assert gates.delay(other, Family.TOKEN) == 0


def test_clients_and_hosts_have_gates_of_their_own() -> None:
    gates = Gates()
    gates.close(SETTINGS, Family.INBOX, 20)
    for change in ({"client_id": "x"}, {"base_url": "https://b"}):
        assert gates.delay(Settings(**{**vars(SETTINGS), **change}), Family.INBOX) == 0


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


def test_a_gate_that_closes_again_is_waited_for_again(fake_clock: FakeClock) -> None:
    gates = Gates()
    gates.close(SETTINGS, Family.INBOX, 10)
    lease = WorkflowClient(SETTINGS, gates=gates).attempt(make("lease_messages"))
    assert next(lease) == Pause(10)
    fake_clock.advance(10)
    gates.close(SETTINGS, Family.INBOX, 5)
    assert next(lease) == Pause(5)


def test_a_gate_is_never_opened_earlier(fake_clock: FakeClock) -> None:
    gates = Gates()
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
