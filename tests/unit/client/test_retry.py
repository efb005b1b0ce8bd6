"""Attempts: how many, how far apart, and who counts them (which call after which fault: see ``matrix``)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_workflow.client import api, errors
from airflow_provider_workflow.client.settings import Settings
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.calls import make, operation
from tests.unit.client.matrix.cells import CALLS, SENT_ONCE
from tests.unit.client.senders import Sender, SyncSender

ATTEMPTS = 5


@pytest.fixture
def send(settings: Settings) -> Iterator[Sender]:
    """A sender of a task: triggers send each call once."""
    sender = SyncSender(settings)
    yield sender
    sender.close()


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
