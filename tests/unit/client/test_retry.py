"""Which call is sent again after which fault, through both senders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import OPERATIONS, make, operation
from tests.unit.client.conftest import MakeSender, settings_of
from tests.unit.client.senders import Sender

ATTEMPTS = 5
ONCE = {
    *("guess", "exchange_code", "refresh_user_token", "create_inbox"),
    *("pause_inbox", "resume_inbox", "lease_messages"),
}
"""Calls that are sent once where they may have had their effect."""
CALLS = sorted(set(OPERATIONS) - {"events"})

UNCERTAIN: dict[str, dict[str, Any]] = {
    "dropped before the effect": {"kind": "drop"},
    "dropped after the effect": {"kind": "drop", "when": "after"},
    "500": {"kind": "status", "status": 500},
    "503": {"kind": "status", "status": 503},
    "504 of a proxy": {"kind": "status", "status": 504, "text": "<html>", "content_type": "text/html"},
    "not JSON": {"kind": "not_json"},
    "truncated": {"kind": "truncate"},
}

OF_A_BODY = ("not JSON", "truncated")
UNCERTAIN_CALLS = [
    (name, fault)
    for name in CALLS
    for fault in UNCERTAIN
    if name != "unenroll_promotion" or fault not in OF_A_BODY  # its answer has no body
]


def test_the_calls_that_are_sent_once_are_these() -> None:
    assert {name for name in CALLS if not make(name).repeatable} == ONCE


def attempts(send: Sender, name: str, inbox_id: str) -> int:
    """Send a call that fails every time; how many attempts it was given."""
    with pytest.raises(errors.WorkflowError) as raised:
        send(make(name, inbox_id))
    assert raised.value.exhausted
    return len(send.naps) + 1


@pytest.mark.parametrize(("name", "fault"), UNCERTAIN_CALLS)
def test_a_call_is_repeated_only_where_it_may_be(
    name: str, fault: str, send: Sender, emulator: EmulatorServer
) -> None:
    inbox_id = emulator.open_inbox("orders")
    emulator.fault(operation=operation(name), times=None, **UNCERTAIN[fault])
    allowed = 1 if name in ONCE else ATTEMPTS
    assert attempts(send, name, inbox_id) == allowed
    # aiohttp itself repeats a GET, PUT or DELETE once when its connection broke (RFC 9110 9.2.2).
    method = make(name).method
    hidden = send.name == "aiohttp" and "dropped" in fault and method in ("GET", "PUT", "DELETE")
    assert emulator.count(operation(name)) == allowed * (2 if hidden else 1)


@pytest.mark.parametrize("name", CALLS)
def test_every_call_is_repeated_where_nobody_listened(
    name: str, make_send: MakeSender, settings: Settings, closed_port: int
) -> None:
    nobody = f"http://127.0.0.1:{closed_port}"
    changes = {"token_url": nobody} if operation(name) == "token" else {"base_url": nobody}
    send = make_send(replace(settings, **changes))
    assert attempts(send, name, "i") == ATTEMPTS


@pytest.mark.parametrize("name", CALLS)
def test_every_call_is_repeated_after_429(name: str, send: Sender, emulator: EmulatorServer) -> None:
    emulator.fault("status", operation=operation(name), status=429, times=None, headers={"Retry-After": "7"})
    with pytest.raises(errors.RateLimitError) as raised:
        send(make(name))
    assert raised.value.status == 429
    assert emulator.count(operation(name)) == ATTEMPTS
    assert send.hands.now - 1000 >= 7 * (ATTEMPTS - 1)


@pytest.mark.parametrize("name", CALLS)
def test_no_call_is_repeated_that_is_at_fault(name: str, send: Sender, emulator: EmulatorServer) -> None:
    for status in (400, 403, 404, 409, 422):
        emulator.emulator.faults.clear()
        emulator.fault("status", operation=operation(name), status=status, times=None)
        assert attempts(send, name, "i") == 1


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


@pytest.mark.parametrize(("name", "allowed"), [("get_inbox", ATTEMPTS), ("lease_messages", 1)])
def test_an_answer_that_trickles_for_ever_ends_with_the_timeout(
    name: str, allowed: int, make_send: MakeSender, emulator: EmulatorServer
) -> None:
    send = make_send(settings_of(emulator, timeout=0.2))
    emulator.fault("trickle", operation=operation(name), times=None, seconds=0.02)
    assert attempts(send, name, emulator.open_inbox("orders")) == allowed
    assert emulator.count(operation(name)) == allowed
