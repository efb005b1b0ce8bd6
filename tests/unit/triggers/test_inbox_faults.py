"""Faults that pass are survived; a lease that could not be handed over is given back."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.triggers.inbox import RELEASE_SECONDS
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.triggers.loops import fire, trigger
from tests.unit.workbench import Workbench


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the trigger itself logged."""
    return [each.getMessage() for each in caplog.records if each.name.endswith("triggers.inbox")]


@pytest.mark.parametrize(
    "fault",
    [{"kind": "status", "status": 503}, {"kind": "drop"}, {"kind": "truncate"}],
)
async def test_a_fault_that_passes_is_logged_once_and_survived(
    bench: Workbench, fake_clock: FakeClock, fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    # An answer that is cut may have leased: its messages come again.
    fake_clock.meanwhile = lambda _: bench.service.store.leases.expire()
    bench.service.fault(**fault, operation="lease", times=3)
    with caplog.at_level(logging.INFO):
        event = await fire(trigger())

    assert event["status"] == "leased"
    assert fake_clock.slept == [5, 10, 20]
    assert [each.split(";")[0] for each in lines(caplog)[1:]] == [
        "Inbox orders is unreachable",
        "Inbox orders is reachable again",
    ]


async def test_a_fault_that_passes_is_survived_from_the_first_request_on(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="list_inboxes", status=503, times=2)
    with caplog.at_level(logging.WARNING):
        event = await fire(trigger())

    assert event["status"] == "leased"
    assert fake_clock.slept == [5, 10]
    assert len([each for each in lines(caplog) if "unreachable" in each]) == 1


async def test_another_series_of_faults_is_logged_again(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        bench.service.fault("status", operation="lease", status=503)

    fake_clock.then(fail, nothing, fail, nothing, lambda: bench.put("a"))
    await fire(trigger())

    assert len([each for each in lines(caplog) if "unreachable" in each]) == 2


async def test_a_rate_limit_is_waited_out(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put("a")
    bench.service.fault("status", operation="lease", status=429, headers={"Retry-After": "0"}, times=6)

    assert (await fire(trigger()))["status"] == "leased"


async def cancelled_while_leasing(bench: Workbench, when: str, *, drop: bool = False, times: int = 1) -> None:
    bench.service.fault("hold", operation="lease", when=when)
    running = asyncio.ensure_future(fire(trigger()))
    await asyncio.to_thread(bench.service.wait_until_held)
    for _ in range(times):
        running.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
    bench.service.release(drop=drop)
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_lease_that_is_under_way_when_the_trigger_ends_is_given_back(
    bench: Workbench, when: str, times: int
) -> None:
    bench.put("a", "b")
    await cancelled_while_leasing(bench, when, times=times)

    assert bench.service.count("release") == 1
    assert bench.states == {"a": "available", "b": "available"}


async def test_an_empty_lease_that_is_under_way_needs_no_release(bench: Workbench) -> None:
    await cancelled_while_leasing(bench, "before")

    assert bench.service.count("release") == 0


async def test_a_lease_whose_answer_is_lost_when_the_trigger_ends_runs_out(bench: Workbench) -> None:
    bench.put("a")
    await cancelled_while_leasing(bench, "after", drop=True)

    assert bench.service.count("release") == 0
    assert bench.states == {"a": "leased"}


async def test_a_trigger_that_ends_does_not_wait_for_ever_for_its_lease(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.put("a")
    bench.service.fault("hold", operation="lease")
    running = asyncio.ensure_future(fire(trigger()))
    await asyncio.to_thread(bench.service.wait_until_held)
    running.cancel()
    await fake_clock.settle()
    assert not running.done()
    fake_clock.advance(RELEASE_SECONDS)

    await asyncio.wait({running}, timeout=10)
    assert running.cancelled()
    assert bench.service.count("release") == 0


async def test_a_release_that_fails_does_not_keep_the_trigger(bench: Workbench) -> None:
    bench.put("a")
    bench.service.fault("status", operation="release", status=400)
    await cancelled_while_leasing(bench, "after")

    assert bench.states == {"a": "leased"}


async def test_a_trigger_that_ends_while_it_waits_releases_nothing(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    running = asyncio.ensure_future(fire(trigger()))

    fake_clock.then(running.cancel)

    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.service.count("lease") >= 1
    assert bench.service.count("release") == 0


async def test_a_lease_that_is_being_written_in_a_thread_when_the_trigger_ends_is_given_back(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, written = threading.Event(), threading.Event()

    def hand_off(lease: HeldLease) -> str:
        writing.set()
        assert written.wait(10)
        return sound(lease)

    sound = HeldLease.hand_off
    monkeypatch.setattr(HeldLease, "hand_off", hand_off)
    bench.put("a", "b")
    running = asyncio.ensure_future(fire(trigger()))
    await asyncio.to_thread(writing.wait, 10)
    running.cancel()
    await asyncio.sleep(0)
    written.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert bench.states == {"a": "available", "b": "available"}
