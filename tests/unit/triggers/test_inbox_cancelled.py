"""A lease whose event Airflow does not take: it logs an event first, and may be cancelled there."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.loops import trigger
from tests.unit.triggers.triggerer import Triggerer, beside
from tests.unit.workbench import Workbench

pytestmark = pytest.mark.since(3, 3, "the fake triggerer")


async def fired(triggerer: Triggerer, held_clock: FakeClock) -> int:
    """A trigger that has leased, and whose event Airflow logs until the gate is opened; its id."""
    triggerer.log.gate = asyncio.Event()
    number = triggerer.start(trigger())
    await held_clock.elapse(5)
    return number


async def test_a_lease_that_was_not_taken_is_given_back_when_the_trigger_is_ended(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a", "b")
    number = await fired(triggerer, held_clock)
    assert bench.states == {"a": "leased", "b": "leased"}
    assert triggerer.unstored == []

    await triggerer.end(number)
    assert bench.states == {"a": "available", "b": "available"}


async def test_a_task_that_is_marked_or_cleared_while_its_event_is_not_taken_gives_its_lease_back(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a", "b")
    number = await fired(triggerer, held_clock)
    await triggerer.cancel(number)

    assert triggerer.unstored == []
    assert bench.states == {"a": "available", "b": "available"}
    assert bench.service.count("ack") == 0


async def test_a_task_that_is_marked_or_cleared_while_its_trigger_leases_gives_that_lease_back(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a")
    bench.service.fault("hold", operation="lease", when="after")
    number = triggerer.start(trigger())
    moving = asyncio.create_task(held_clock.elapse(5))
    await beside(bench.service.wait_until_held)
    ending = asyncio.create_task(triggerer.cancel(number))
    bench.service.release()
    await ending
    await moving

    assert triggerer.unstored == []
    assert bench.states == {"a": "available"}
    assert bench.service.count("ack") == 0


async def test_it_is_given_back_though_airflow_cancels_again_and_again(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a")
    number = await fired(triggerer, held_clock)
    task = triggerer.runner.triggers[number]["task"]
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert bench.states == {"a": "available"}


async def test_a_lease_that_was_taken_is_left_to_its_task_however_soon_the_trigger_is_ended(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a")
    number = await fired(triggerer, held_clock)
    triggerer.log.gate.set()
    for _ in range(10):  # so soon that the trigger has not left its stream and its client yet
        await asyncio.sleep(0)
        if triggerer.unstored:
            break
    await triggerer.end(number)
    assert [each["status"] for each in triggerer.unstored] == ["leased"]
    assert bench.states == {"a": "leased"}
    assert bench.service.count("release") == 0
