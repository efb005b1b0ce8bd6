"""The producer survives all errors, leases no more than Airflow stores, and releases what it holds."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import PATIENCE_SECONDS, Triggerer, beside, event_trigger
from tests.unit.workbench import Workbench

pytest.importorskip("airflow.triggers.shared_stream", reason="Airflow acknowledges asset events since 3.3")

from airflow_provider_workflow.triggers.event_producer import (
    CLOSING_SECONDS,
    MOST_UNSETTLED,
)


def ours(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What this package logged."""
    return [
        (each.levelname, each.getMessage().split(":")[0])
        for each in caplog.records
        if each.name.startswith("airflow_provider_workflow.triggers")
    ]


def is_running(triggerer: Triggerer, number: int) -> bool:
    return not triggerer.runner.triggers[number]["task"].done()


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 503, "times": 4},
        {"kind": "drop", "times": 4},
        {"kind": "status", "status": 429, "headers": {"Retry-After": "0"}, "times": 4},
    ],
)
async def test_a_fault_that_passes_is_outlasted_with_pauses_and_two_lines(
    bench: Workbench,
    triggerer: Triggerer,
    held_clock: FakeClock,
    fault: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench.put("a")
    bench.service.fault(**fault, operation="lease")
    number = triggerer.start(event_trigger())
    with caplog.at_level(logging.INFO):
        await triggerer.work(400)

    assert is_running(triggerer, number)
    assert triggerer.stored_ids() == ["a"]
    assert bench.states == {}
    lines = ours(caplog)
    assert ("WARNING", "Inbox orders is unreachable; retrying") in lines
    assert ("INFO", "Inbox orders is reachable again") in lines
    assert len(lines) <= 4


async def test_what_somebody_has_to_fix_is_an_error_once_and_the_watcher_goes_on_when_it_is(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    number = triggerer.start(event_trigger(inbox="later"))
    with caplog.at_level(logging.INFO):
        await triggerer.work(250)
        asked = len(bench.service.requests)
        bench.service.open_inbox("later")
        bench.service.put("later", {"n": 1}, ids=["a"])
        await triggerer.work(400)

    assert is_running(triggerer, number)
    assert asked < 20
    assert triggerer.stored_ids() == ["a"]
    assert [level for level, _ in ours(caplog)].count("ERROR") == 1


async def test_a_connection_that_is_missing_is_waited_for(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = triggerer.start(event_trigger(workflow_conn_id="later"))
    await triggerer.work(30)
    monkeypatch.setenv("AIRFLOW_CONN_LATER", bench.service.connection_json())
    bench.put("a")
    await triggerer.work(300)

    assert is_running(triggerer, number)
    assert triggerer.stored_ids() == ["a"]


async def test_an_inbox_that_failed_to_initialize_is_an_error_and_its_successor_is_found(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure", "subscribe_failed")
    triggerer.start(event_trigger())
    with caplog.at_level(logging.INFO):
        await triggerer.work(30)
        bench.service.store.inboxes.delete(bench.inbox_id)
        bench.service.store.clock.advance(3600)  # type: ignore[attr-defined]
        bench.inbox_id = bench.service.open_inbox("orders")
        bench.put("a")
        await triggerer.work(700)

    assert triggerer.stored_ids() == ["a"]
    assert "failed to initialize (subscribe_failed)" in caplog.text


async def test_a_paused_inbox_is_said_to_be_so_once_and_waited_for(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")
    triggerer.start(event_trigger())
    with caplog.at_level(logging.INFO):
        await triggerer.work(200)
        bench.service.store.inboxes.resume(bench.inbox_id)
        bench.put("b")
        await triggerer.work(100)

    assert triggerer.stored_ids() == ["a", "b"]
    assert caplog.text.count("is paused (abandoned)") == 1
    assert caplog.text.count("Inbox orders is active") == 1


async def test_while_airflow_stores_nothing_only_a_few_leases_are_held(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put(*(f"m{number}" for number in range(20)))
    triggerer.start(event_trigger(lease_limit=1))
    await held_clock.elapse(200)
    assert bench.service.summary("orders")["counters"]["leases"] == MOST_UNSETTLED

    await triggerer.work(100)
    assert len(triggerer.stored_ids()) == 20
    assert bench.states == {}


async def test_while_no_acknowledgement_comes_through_only_a_few_leases_are_held(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put(*(f"m{number}" for number in range(20)))
    fault = bench.service.fault("status", operation="ack", status=503, times=None)
    triggerer.start(event_trigger(lease_limit=1))
    await triggerer.work(200)
    assert bench.service.summary("orders")["counters"]["leases"] == MOST_UNSETTLED

    bench.service.emulator.faults.clear(fault)
    await triggerer.work(200)
    assert len(triggerer.stored_ids()) == 20
    assert bench.states == {}


async def test_a_slow_service_does_not_keep_a_triggerer_from_ending(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a")
    triggerer.start(event_trigger())
    await held_clock.elapse(5)
    bench.service.fault("hold", operation="release", times=None)
    ending = asyncio.create_task(triggerer.stop_streams())
    await beside(bench.service.wait_until_held)
    assert not ending.done()
    held_clock.advance(CLOSING_SECONDS)
    await asyncio.wait({ending}, timeout=PATIENCE_SECONDS)

    assert ending.done()
