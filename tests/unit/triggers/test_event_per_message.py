"""With ``per_message`` each message has an event of its own; leased and acknowledged they are together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from airflow_provider_workflow.assets import messages_of
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import Triggerer, event_trigger
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
    triggerer.start(event_trigger(per_message=True))
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
    triggerer.start(event_trigger(per_message=True, match=EVEN))
    await triggerer.work(5)

    assert [payload["count"] for _, payload in triggerer.stored] == [1, 1, 1]
    assert triggerer.stored_ids() == ["m0", "m2", "m4"]


async def test_nothing_is_acknowledged_before_the_last_event_is_stored(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2, 3)
    triggerer.start(event_trigger(per_message=True))
    await held_clock.elapse(5)
    *first, last = triggerer.runner.events
    triggerer.streams.confirm_persisted([each.persist_seq for each in first])
    await held_clock.elapse(30)
    assert bench.states == dict.fromkeys(("m1", "m2", "m3"), "leased")

    triggerer.streams.confirm_persisted([last.persist_seq])
    await held_clock.elapse(10)
    assert bench.states == {}


async def test_one_that_ends_between_two_events_acknowledges_none_of_them(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2)
    trigger = triggerer.start(event_trigger(per_message=True))
    await held_clock.elapse(1)
    triggerer.log.gate = asyncio.Event()
    await held_clock.elapse(4)
    await triggerer.end(trigger)
    triggerer.log.gate = None
    await held_clock.elapse(10)
    assert "acknowledged" not in bench.states.values()
    assert set(bench.states) == {"m1", "m2"}

    bench.service.store.messages.expire()
    triggerer.start(event_trigger(per_message=True))
    await triggerer.work(20)
    assert triggerer.stored_ids() == ["m1", "m2"]
    assert bench.states == {}
