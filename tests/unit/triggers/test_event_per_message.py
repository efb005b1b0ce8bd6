"""With ``per_message`` each message has an event of its own; leased and acknowledged they are together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from airflow_provider_workflow import process_state
from airflow_provider_workflow.assets import messages_of
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import Store, Triggerer, event_trigger
from tests.unit.triggers.watched import EVEN, put
from tests.unit.workbench import Workbench

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


@pytest.fixture(autouse=True)
def airflow_3_4(release: Callable[[int, int], None]) -> None:
    release(3, 4)


async def test_each_message_has_an_event_and_all_are_acknowledged_with_one_call(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    ids = put(bench, *range(5))
    triggerer.start(event_trigger(per_message=True), Store())
    await triggerer.work(15)

    assert [[each["id"] for each in messages_of(payload)] for _, payload in triggerer.stored] == [
        [each] for each in ids
    ]
    assert bench.states == {}
    assert bench.service.summary("orders")["counters"]["leases"] == 1
    assert bench.service.count("ack") == 1


async def test_only_what_matches_has_an_event(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, *range(5))
    triggerer.start(event_trigger(per_message=True, match=EVEN), Store())
    await triggerer.work(5)

    assert [payload["count"] for _, payload in triggerer.stored] == [1, 1, 1]
    assert triggerer.stored_ids() == ["m0", "m2", "m4"]


async def test_nothing_is_acknowledged_before_the_last_event_is_stored(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2, 3)
    triggerer.start(event_trigger(per_message=True), Store())
    await held_clock.elapse(5)
    *first, last = triggerer.runner.events
    triggerer.streams.confirm_persisted([each.persist_seq for each in first])
    await held_clock.elapse(30)
    assert bench.states == dict.fromkeys(("m1", "m2", "m3"), "leased")

    triggerer.streams.confirm_persisted([last.persist_seq])
    await held_clock.elapse(10)
    assert bench.states == {}


async def test_one_that_ends_between_two_events_acknowledges_none_and_marks_all_that_come_again(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2)
    store = Store()
    trigger = triggerer.start(event_trigger(per_message=True), store)
    await held_clock.elapse(1)
    triggerer.log.gate = asyncio.Event()
    await held_clock.elapse(4)
    await triggerer.end(trigger)
    triggerer.log.gate = None
    await held_clock.elapse(10)
    assert "acknowledged" not in bench.states.values()
    assert set(bench.states) == {"m1", "m2"}

    bench.service.store.leases.expire()
    process_state.reset()
    triggerer.start(event_trigger(per_message=True), Store(rows=store.rows))
    await triggerer.work(20)
    assert [(each["id"], each["redelivered"]) for each in triggerer.stored_messages()] == [
        ("m1", True),
        ("m2", True),
    ]
    assert bench.states == {}


async def test_events_that_a_killed_triggerer_repeats_are_marked(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2)
    store = Store()
    triggerer.start(event_trigger(per_message=True), store)
    await held_clock.elapse(5)
    assert [[each["redelivered"] for each in messages_of(event)] for event in triggerer.unstored] == [
        [False],
        [False],
    ]
    await triggerer.crash()
    bench.service.store.leases.expire()

    process_state.reset()
    after = Triggerer(bench, held_clock)
    after.start(event_trigger(per_message=True), Store(rows=store.rows))
    await after.work(15)
    assert [each["redelivered"] for each in after.stored_messages()] == [True, True]
    assert bench.states == {}
    await after.stop()


async def test_a_message_is_remembered_before_airflow_can_store_the_first_event(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2)
    store = Store()
    triggerer.log.gate = asyncio.Event()
    triggerer.start(event_trigger(per_message=True), store)
    await held_clock.elapse(5)

    assert triggerer.unstored == []
    assert [len(marks) for marks in store.rows.values()] == [2]
