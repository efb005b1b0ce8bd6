"""Quarantined messages: when an inbox is checked for them, and how often they are reported."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic, sleep
from typing import Any

import pytest

from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.dispatch.results import Drained
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.pytest_plugin import reset as another_process
from tests.unit.counted import Counted
from tests.unit.triggers.test_inbox import trigger
from tests.unit.workbench import INBOX, Workbench

__all__ = ["another_process"]


def crash(bench: Workbench, clock: ManualClock, *ids: str) -> None:
    """Let messages come, and everybody who leases them die."""
    bench.put(*ids)
    for _ in range(5):
        bench.service.store.messages.lease(bench.inbox_id, 60, 100)
        clock.advance(61)
    assert bench.service.summary(INBOX)["counts"]["quarantined"] >= len(ids)


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]


@pytest.mark.parametrize("turns", range(5))
async def test_a_trigger_that_ends_as_its_look_is_answered_ends(turns: int, bench: Workbench) -> None:
    go = asyncio.Event()

    class Client:
        settings = bench.hook.settings

        async def run(self, listing: Any) -> list[Any]:
            listing.close()
            await go.wait()
            return []

    async def look() -> None:
        await quarantine.check_in_loop(Client(), "orders")  # type: ignore[arg-type]
        await asyncio.Event().wait()

    looking = asyncio.ensure_future(look())
    for _ in range(5):
        await asyncio.sleep(0)
    go.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    looking.cancel()
    await asyncio.wait({looking}, timeout=10)
    assert looking.cancelled()


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 503},
        {"kind": "status", "status": 429, "headers": {"Retry-After": "50"}},
        {"kind": "drop"},
    ],
    ids=lambda fault: str(fault.get("status", fault["kind"])),
)
def test_a_look_that_fails_is_made_once_and_fails_nothing(
    fault: dict[str, Any], bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault(**fault, operation="list_messages", times=None)
    with caplog.at_level(logging.INFO):
        assert bench.dispatcher().drain() is Drained.EMPTY

    assert bench.supervisor.started == ["a"]
    assert bench.service.count("list_messages") == 1
    assert "cannot find out whether messages are in quarantine" in caplog.text


async def test_a_trigger_that_waits_raises_the_alarm_for_what_nobody_else_will_see(
    bench: Workbench, clock: ManualClock, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(crash, bench, clock, "a")
    waiting = trigger(poll_interval=0.01, max_poll_interval=0.01)
    running = asyncio.ensure_future(anext(waiting.run()))
    await asyncio.to_thread(until_there_are_alarms, caplog)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert len(alarms(caplog)) == 1
    assert counted.totals == {"quarantined": 1}
    assert bench.service.count("list_messages") == 1


def until_there_are_alarms(caplog: pytest.LogCaptureFixture) -> None:
    end = monotonic() + 10
    while not alarms(caplog) and monotonic() < end:
        sleep(0.01)
