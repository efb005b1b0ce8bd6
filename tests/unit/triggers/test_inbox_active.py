"""The trigger waits until an inbox has left the states that pass, and fires once."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from airflow_provider_workflow.client import over_aiohttp
from airflow_provider_workflow.client.errors import AuthenticationError, TransportError
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.triggers.inbox_active import WorkflowInboxActiveTrigger
from airflow_provider_workflow.triggers.retrying import settle_seconds
from tests.unit.fake_clock import START, FakeClock, nothing

DEADLINE = START + 600


@pytest.fixture
def inbox_id(connected: EmulatorServer) -> str:
    """An inbox that is ``initializing`` until a test says otherwise."""
    found = connected.open_inbox("orders")
    connected.store.inboxes.force(found, "initializing")
    return found


async def fire(inbox_id: str, **arguments: Any) -> Any:
    waiting = WorkflowInboxActiveTrigger(inbox_id, deadline=DEADLINE, **arguments)
    events = [event.payload async for event in waiting.run()]
    assert len(events) == 1
    return events[0]


class Subclass(WorkflowInboxActiveTrigger):
    """A trigger of somebody else's."""


def test_a_trigger_comes_back_from_what_it_serializes() -> None:
    given = {
        "inbox_id": "i",
        "deadline": 5.5,
        "workflow_conn_id": "other",
        "poll_interval": 2,
        "max_poll_interval": 20,
        "settle_seconds": 6.0,
    }
    path, kwargs = WorkflowInboxActiveTrigger(**given).serialize()

    assert path == "airflow_provider_workflow.triggers.inbox_active.WorkflowInboxActiveTrigger"
    assert kwargs == given
    assert WorkflowInboxActiveTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


def test_a_subclass_serializes_as_itself() -> None:
    assert Subclass("i", 1.0).serialize()[0] == f"{__name__}.Subclass"


@pytest.mark.parametrize("status", ["active", "initialization_failure"])
async def test_an_inbox_in_a_state_that_stays_fires_at_once(
    connected: EmulatorServer, fake_clock: FakeClock, inbox_id: str, status: str
) -> None:
    connected.store.inboxes.force(inbox_id, status)

    assert await fire(inbox_id) == {"status": "settled"}
    assert fake_clock.slept == []


async def test_it_settles_before_it_asks(
    connected: EmulatorServer, fake_clock: FakeClock, inbox_id: str
) -> None:
    connected.store.inboxes.force(inbox_id, "active")
    requests: list[int] = []
    fake_clock.meanwhile = lambda _: requests.append(len(connected.requests))
    await fire(inbox_id, settle_seconds=6)

    assert fake_clock.slept == [6]
    assert requests == [0]


@pytest.mark.parametrize("status", ["initializing", "deleting", "migrating"])
async def test_the_interval_doubles_while_a_state_lasts_that_may_pass(
    connected: EmulatorServer, fake_clock: FakeClock, inbox_id: str, status: str
) -> None:
    connected.store.inboxes.get(inbox_id).status = status

    fake_clock.then(*[nothing] * 4, lambda: connected.store.inboxes.force(inbox_id, "active"))
    assert await fire(inbox_id, poll_interval=5, max_poll_interval=30) == {"status": "settled"}
    assert fake_clock.slept == [5, 10, 20, 30, 30]


async def test_an_inbox_that_is_gone_fires(
    connected: EmulatorServer, fake_clock: FakeClock, inbox_id: str
) -> None:
    connected.store.inboxes.delete(inbox_id)

    assert await fire(inbox_id) == {"status": "settled"}


async def test_it_gives_up_at_its_deadline(
    connected: EmulatorServer, fake_clock: FakeClock, inbox_id: str
) -> None:
    assert await fire(inbox_id, poll_interval=200, max_poll_interval=1000) == {"status": "timed_out"}
    assert fake_clock.slept == [200, 400]
    assert fake_clock.now() == DEADLINE


async def test_it_looks_once_more_at_its_deadline(
    connected: EmulatorServer, fake_clock: FakeClock, inbox_id: str
) -> None:
    fake_clock.at(DEADLINE, lambda: connected.store.inboxes.force(inbox_id, "active"))
    assert await fire(inbox_id, poll_interval=600) == {"status": "settled"}


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 503},
        {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}},
        {"kind": "drop"},
    ],
)
async def test_faults_that_pass_are_logged_once_and_survived(
    connected: EmulatorServer,
    fake_clock: FakeClock,
    inbox_id: str,
    fault: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    connected.store.inboxes.force(inbox_id, "active")
    connected.fault(**fault, operation="get_inbox", times=12)
    with caplog.at_level(logging.INFO, "airflow_provider_workflow.triggers.inbox_active"):
        assert await fire(inbox_id) == {"status": "settled"}

    assert fake_clock.slept[0] == 5
    lines = [each.getMessage() for each in caplog.records if each.name.endswith("triggers.inbox_active")]
    assert [line.split(";")[0] for line in lines] == [
        f"Inbox {inbox_id} is unreachable",
        f"Inbox {inbox_id} is reachable again",
    ]


async def test_past_the_deadline_a_service_out_of_reach_is_not_asked_without_pause(
    connected: EmulatorServer, fake_clock: FakeClock, inbox_id: str
) -> None:
    connected.fault("status", operation="get_inbox", status=503, times=20)

    assert await fire(inbox_id, poll_interval=250, max_poll_interval=250) == {"status": "timed_out"}
    assert fake_clock.slept == [250, 250, 100, 250]


async def test_refused_credentials_are_raised(
    connected: EmulatorServer, fake_clock: FakeClock, inbox_id: str
) -> None:
    connected.fault("status", operation="get_inbox", status=403, times=None)

    with pytest.raises(AuthenticationError):
        await fire(inbox_id)


async def test_a_fault_that_time_does_not_cure_is_raised(
    connected: EmulatorServer, fake_clock: FakeClock, inbox_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise TransportError("the certificate does not verify", sent=False, permanent=True)

    monkeypatch.setattr(over_aiohttp, "exchange", fail)
    with pytest.raises(TransportError):
        await fire(inbox_id)


async def test_after_a_run_it_serializes_no_secret(
    connected: EmulatorServer, fake_clock: FakeClock, inbox_id: str
) -> None:
    connected.store.inboxes.force(inbox_id, "active")
    waiting = WorkflowInboxActiveTrigger(inbox_id, deadline=DEADLINE)
    assert [event async for event in waiting.run()]

    text = json.dumps(waiting.serialize())
    assert connected.client_secret not in text
    assert connected.base_url not in text


def test_a_task_stays_away_for_a_second_longer_than_airflow_may_take_to_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL", "3")

    assert settle_seconds() == 4
