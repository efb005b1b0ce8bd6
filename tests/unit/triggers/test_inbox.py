"""The trigger waits, leases, and fires once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.client import over_aiohttp
from airflow_provider_workflow.client.errors import AuthenticationError, TransportError
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.test_leases import ANY_JSON
from tests.unit.triggers.loops import FakeWakeUps, fire, trigger
from tests.unit.workbench import INBOX, Workbench


class Subclass(WorkflowInboxTrigger):
    """A trigger of somebody else's."""


def test_a_trigger_comes_back_from_what_it_serializes() -> None:
    given = {
        "inbox": "orders",
        "workflow_conn_id": "other",
        "lease_limit": 7,
        "lease_seconds": 90,
        "poll_interval": 2,
        "max_poll_interval": 20,
        "wake_on_events": False,
        "on_paused": "wait",
        "settle_seconds": 6.0,
        "hold_seconds": 1.0,
    }
    path, kwargs = WorkflowInboxTrigger(**given).serialize()

    assert path == "airflow_provider_workflow.triggers.inbox.WorkflowInboxTrigger"
    assert kwargs == given
    assert WorkflowInboxTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


def test_airflow_finds_what_it_needs_to_render_a_trigger_that_begins_a_task() -> None:
    waiting = trigger()

    assert hasattr(waiting, "template_fields") or airflow_release() < (3, 3)
    assert waiting.task_instance is None


def test_a_subclass_serializes_as_itself() -> None:
    assert Subclass("orders").serialize()[0] == f"{__name__}.Subclass"


async def test_after_a_run_it_still_serializes_no_secret(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put("a")
    waiting = trigger()
    await fire(waiting)

    text = json.dumps(waiting.serialize())
    assert bench.service.client_secret not in text
    assert bench.service.base_url not in text


async def test_it_leases_and_hands_the_lease_over(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put("a", "b", "c")
    event = await fire(trigger(lease_limit=2, lease_seconds=90))

    assert set(event) == {"status", "inbox_name", "lease"}
    assert (event["status"], event["inbox_name"]) == ("leased", INBOX)
    lease = HeldLease.from_hand_off(event["lease"])
    assert lease.inbox_id == bench.inbox_id
    assert lease.message_ids == ["a", "b"]
    assert bench.sent("lease") == [{"lease_limit": 2, "lease_seconds": 90}]
    assert bench.service.count("ack") == bench.service.count("release") == 0


async def test_after_a_hand_off_nothing_is_released(bench: Workbench, wake_ups: FakeWakeUps) -> None:
    bench.put("a")
    running = trigger(wake_on_events=True).run()
    await anext(running)
    await running.aclose()

    assert wake_ups.closed
    assert bench.states == {"a": "leased"}
    assert bench.service.count("release") == 0


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=st.dictionaries(st.text() | st.just("__classname__"), ANY_JSON))
@pytest.mark.parametrize("_", [0])
def test_any_payload_is_handed_over_as_one_ascii_text(
    bench: Workbench, fake_clock: FakeClock, payload: Any, _: int
) -> None:
    import asyncio

    bench.put("a", payload=payload)
    event = asyncio.run(fire(trigger()))
    lease = HeldLease.from_hand_off(event["lease"])
    bench.hook.acknowledge_messages(bench.inbox_id, lease.lease_id)

    assert all(isinstance(value, str) and value.isascii() and "\0" not in value for value in event.values())
    assert lease.messages[0]["payload"] == payload


async def test_what_is_over_a_megabyte_stays_behind(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put("a", "b", "c", payload="x" * 400_000)
    event = await fire(trigger())

    assert HeldLease.from_hand_off(event["lease"]).left_out == ["c"]


async def test_it_settles_before_it_leases(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put("a")
    requests: list[int] = []
    fake_clock.meanwhile = lambda _: requests.append(len(bench.service.requests))
    await fire(trigger(settle_seconds=6))

    assert fake_clock.slept == [6]
    assert requests == [0]


@pytest.mark.parametrize(("hold", "slept"), [(30, 30), (5, 6)])
async def test_holding_it_leases_nothing_and_only_wakes_the_sensor(
    bench: Workbench, fake_clock: FakeClock, hold: float, slept: float
) -> None:
    bench.put("a")

    assert await fire(trigger(settle_seconds=6, hold_seconds=hold)) == {"status": "poll"}
    assert fake_clock.slept == [slept]
    assert bench.service.requests == []


async def test_the_interval_doubles_while_the_inbox_stays_empty(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    fake_clock.then(*[nothing] * 5, lambda: bench.put("a"))
    await fire(trigger(poll_interval=5, max_poll_interval=60))

    assert fake_clock.slept == [5, 10, 20, 40, 60, 60]


async def test_a_wake_up_resets_the_interval(bench: Workbench, wake_ups: FakeWakeUps) -> None:
    wake_ups.woken = [False, False, True, False]
    wake_ups.then = lambda count: bench.put("a") if count == 6 else None
    await fire(trigger(wake_on_events=True))

    # A wake-up within the first second ends the wait after it.
    assert wake_ups.waited == [4, 9, 19, 4, 9, 19]


async def test_wake_ups_do_not_hasten_what_fails(
    bench: Workbench, fake_clock: FakeClock, wake_ups: FakeWakeUps
) -> None:
    wake_ups.woken = [True] * 100
    bench.put("a")
    bench.service.fault("status", operation="lease", status=503, times=4)
    await fire(trigger(wake_on_events=True))

    # Whatever the wake-ups.
    assert fake_clock.slept == [5, 10, 20, 40]


async def test_a_wake_up_for_what_others_lease_is_answered_once_a_second(
    bench: Workbench, fake_clock: FakeClock, wake_ups: FakeWakeUps
) -> None:
    wake_ups.woken = [True] * 100
    wake_ups.then = lambda count: bench.put("a") if count == 5 else None
    await fire(trigger(wake_on_events=True))

    assert fake_clock.slept == [1, 1, 1, 1, 1]


async def test_refused_credentials_are_raised(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.service.fault("status", operation="lease", status=403, times=None)

    with pytest.raises(AuthenticationError):
        await fire(trigger())


async def test_a_fault_that_time_does_not_cure_is_raised(
    bench: Workbench, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise TransportError("the certificate does not verify", sent=False, permanent=True)

    monkeypatch.setattr(over_aiohttp, "exchange", fail)
    with pytest.raises(TransportError):
        await fire(trigger())
