"""No message is acknowledged without a stored event: each window in which Airflow reports one as stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import Triggerer, event_trigger
from tests.unit.workbench import Workbench

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")

LEASES = 6.0
"""Seconds after which a message that was there at the beginning is leased and offered, with some to spare."""


DELAY = 3.0
"""Seconds from the report of a batch to its acknowledgement or release."""


class Raises(WorkflowInboxEventTrigger):
    """Its filter raises when it has taken a batch."""

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for _ in shared_stream:
            raise RuntimeError("made up")
        yield


class Hesitates(WorkflowInboxEventTrigger):
    """Its filter awaits between taking a batch and yielding its event, for ever."""

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async def slowly() -> AsyncIterator[Any]:
            async for batch in shared_stream:
                await asyncio.Event().wait()
                yield batch

        async for event in super().filter_shared_stream(slowly()):
            yield event


async def test_without_any_fault_a_message_is_acknowledged_after_its_event_is_stored(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a", "b")
    triggerer.start(event_trigger())
    await held_clock.elapse(20)
    assert bench.states == {"a": "leased", "b": "leased"}
    assert len(triggerer.unstored) == 1

    triggerer.store()
    await held_clock.elapse(10)
    assert bench.states == {}
    assert triggerer.stored_ids() == ["a", "b"]


@pytest.mark.parametrize("sibling", [False, True])
async def test_a_filter_that_raises_acknowledges_nothing(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, sibling: bool
) -> None:
    bench.put("a")
    if sibling:
        triggerer.start(event_trigger())
    triggerer.start(Raises("orders", wake_on_events=False))
    await held_clock.elapse(LEASES)
    triggerer.store()
    await held_clock.elapse(DELAY)

    assert triggerer.stored_ids() == (["a"] if sibling else [])
    assert bench.states == {"a": "available"}
    assert bench.service.count("ack") == 0


@pytest.mark.parametrize("sibling", [False, True])
async def test_a_trigger_that_is_ended_before_it_yields_acknowledges_nothing(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, sibling: bool
) -> None:
    bench.put("a")
    number = triggerer.start(Hesitates("orders", wake_on_events=False))
    if sibling:
        triggerer.start(event_trigger(match="id == 'other'"))
    await held_clock.elapse(LEASES)
    assert bench.states == {"a": "leased"}
    await triggerer.end(number)
    await held_clock.settle()
    await held_clock.elapse(DELAY)

    assert triggerer.unstored == []
    assert bench.service.count("ack") == 0
    assert bench.states == {"a": "available"}


@pytest.mark.parametrize("sibling", [False, True])
async def test_a_trigger_that_is_ended_between_its_yield_and_airflow_taking_the_event_acknowledges_nothing(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, sibling: bool
) -> None:
    bench.put("a")
    triggerer.log.gate = asyncio.Event()
    number = triggerer.start(event_trigger())
    if sibling:
        triggerer.start(event_trigger(match="id == 'other'"))
    await held_clock.elapse(LEASES)
    assert bench.states == {"a": "leased"}
    await triggerer.end(number)
    await held_clock.settle()
    await held_clock.elapse(DELAY)

    assert triggerer.unstored == []
    assert bench.service.count("ack") == 0
    assert bench.states == {"a": "available"}


async def test_an_event_that_airflow_takes_when_its_streams_are_stopped_acknowledges_nothing(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    # Airflow does not bind it to the batch any more, and does not store it: what is left is the mark.
    bench.put("a")
    triggerer.log.gate = asyncio.Event()
    triggerer.start(event_trigger())
    await held_clock.elapse(LEASES)
    assert bench.states == {"a": "leased"}
    groups = list(triggerer.streams._groups.values())
    triggerer.streams._groups.clear()
    triggerer.log.gate.set()
    await held_clock.settle()
    assert len(triggerer.unstored) == 1
    for group in groups:
        await group.stop()
    await triggerer.crash()

    assert bench.service.count("ack") == 0
    assert bench.states == {"a": "available"}


async def test_an_event_that_airflow_dropped_as_its_dag_was_paused_acknowledges_nothing(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    # Airflow calls an event stored also where its trigger has no asset any more, and then ends the trigger.
    bench.put("a")
    number = triggerer.start(event_trigger())
    triggerer.start(event_trigger(match="id == 'other'"))
    await held_clock.elapse(LEASES)
    triggerer.store()
    await held_clock.settle()
    await triggerer.end(number)
    await held_clock.elapse(10)

    assert bench.service.count("ack") == 0
    # Only once: on its second delivery, it is left to its lease, as the other one does not select it.
    assert bench.service.count("release") == 1


@pytest.mark.parametrize("sibling", [False, True])
async def test_an_event_that_is_not_stored_in_time_acknowledges_nothing(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, sibling: bool
) -> None:
    bench.put("a")
    triggerer.streams._ack_timeout, triggerer.streams._now = 0.05, lambda: 0.0
    if sibling:
        triggerer.start(event_trigger())
    late = triggerer.start(event_trigger())
    await held_clock.elapse(LEASES)
    for entry in list(triggerer.runner.events):
        if entry.trigger_id == late:
            triggerer.runner.events.remove(entry)
    triggerer.store()
    await held_clock.settle()
    (group,) = triggerer.streams._groups.values()
    group._now = lambda: 1.0
    await asyncio.wait({triggerer.runner.triggers[late]["task"]}, timeout=10)
    await held_clock.settle()
    await held_clock.elapse(DELAY)

    assert bench.service.count("ack") == 0
    assert bench.states == {"a": "available"}


async def test_a_triggerer_that_stops_gives_back_what_was_not_stored(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a", "b")
    triggerer.start(event_trigger())
    await held_clock.elapse(LEASES)
    assert bench.states == {"a": "leased", "b": "leased"}
    await triggerer.stop()

    assert bench.states == {"a": "available", "b": "available"}


async def test_a_triggerer_that_stops_just_after_an_event_was_stored_gives_its_messages_back(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a", "b")
    triggerer.start(event_trigger())
    await held_clock.elapse(LEASES)
    triggerer.store()
    await held_clock.settle()
    assert bench.states == {"a": "leased", "b": "leased"}
    await triggerer.stop()

    assert bench.states == {"a": "available", "b": "available"}
