"""Watchers of one inbox in Airflow's own trigger runner: one poller, each its messages, nothing dropped."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from airflow_provider_workflow import process_state
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import Store, Triggerer, event_trigger
from tests.unit.triggers.watched import EVEN, ODD, put
from tests.unit.workbench import Workbench

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


async def test_many_watchers_have_one_poller(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    for number in range(10):
        triggerer.start(event_trigger(match=f"payload.n == `{number}`"), Store(str(number)))
    await triggerer.work(62)

    # The first at 2 s, then after 5, 10, 20 and 40 s: as one watcher would.
    assert bench.service.count("lease") == 4
    assert bench.service.count("list_inboxes") + bench.service.count("get_inbox") <= 2


async def test_each_watcher_gets_what_it_wants_and_all_of_it_is_acknowledged(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    ids = put(bench, *range(10))
    even = triggerer.start(event_trigger(match=EVEN), Store("even"))
    odd = triggerer.start(event_trigger(match=ODD), Store("odd"))
    every = triggerer.start(event_trigger(), Store("every"))
    await triggerer.work(15)

    assert triggerer.stored_ids(even) == ids[::2]
    assert triggerer.stored_ids(odd) == ids[1::2]
    assert triggerer.stored_ids(every) == ids
    assert bench.states == {}
    assert len(triggerer.stored) == 3
    assert bench.service.count("lease") <= 3


async def test_a_message_that_two_want_waits_for_both_events(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger(), Store("one"))
    triggerer.start(event_trigger(match=ODD), Store("other"))
    await held_clock.elapse(5)
    entries = list(triggerer.runner.events)
    assert len(entries) == 2
    triggerer.streams.confirm_persisted([entries[0].persist_seq])
    await held_clock.elapse(30)
    assert bench.states == {"m1": "leased"}

    triggerer.streams.confirm_persisted([entries[1].persist_seq])
    await held_clock.elapse(10)
    assert bench.states == {}


async def test_a_batch_whose_event_is_stored_late_holds_up_no_other(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2)
    triggerer.start(event_trigger(lease_limit=1), Store())
    await held_clock.elapse(8)
    first, second = triggerer.runner.events
    triggerer.streams.confirm_persisted([second.persist_seq])
    await held_clock.elapse(10)
    assert bench.states == {"m1": "leased"}

    triggerer.streams.confirm_persisted([first.persist_seq])
    await held_clock.elapse(10)
    assert bench.states == {}


async def test_events_carry_a_batch_each_and_keep_their_distance(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, *range(25))
    triggerer.start(event_trigger(lease_limit=10, min_interval=4), Store())
    moments = []
    for _ in range(30):
        await held_clock.elapse(1)
        if triggerer.unstored:
            moments.append(held_clock.now())
        triggerer.store()
        await held_clock.settle()

    assert [payload["count"] for _, payload in triggerer.stored] == [10, 10, 5]
    assert [later - earlier for earlier, later in pairwise(moments)] == [4, 4]
    assert bench.states == {}


async def test_a_large_batch_is_several_events(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a", "b", "c", payload="x" * 400_000)
    triggerer.start(event_trigger(), Store())
    await triggerer.work(15)

    assert [payload["count"] for _, payload in triggerer.stored] == [2, 1]
    assert bench.service.summary("orders")["counters"]["leases"] == 1
    assert bench.states == {}


async def test_what_comes_again_is_marked(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    bench.service.fault("status", operation="ack", status=400, code="lease_expired", times=1)
    triggerer.start(event_trigger(), Store())
    await triggerer.work(10)
    bench.service.store.leases.expire()
    put(bench, 2)
    await triggerer.work(30)

    assert [(each["id"], each["redelivered"]) for each in triggerer.stored_messages()] == [
        ("m1", False),
        ("m1", True),
        ("m2", False),
    ]
    assert bench.states == {}


async def test_what_comes_again_after_a_crash_is_marked(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    store = Store()
    triggerer.start(event_trigger(), store)
    await held_clock.elapse(5)
    assert triggerer.unstored
    await triggerer.crash()
    bench.service.store.leases.expire()

    process_state.reset()
    after = Triggerer(bench, held_clock)
    after.start(event_trigger(), Store(rows=store.rows))
    await after.work(15)
    assert [each["redelivered"] for each in after.stored_messages()] == [True]
    assert bench.states == {}
    await after.stop()


async def test_airflow_begins_to_store_an_event_only_after_it_was_remembered(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    store = Store()
    triggerer.start(event_trigger(), store)
    await held_clock.elapse(5)

    assert triggerer.unstored
    assert [len(marks) for marks in store.rows.values()] == [1]


async def test_a_watcher_that_outlives_its_siblings_goes_on(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    stays = triggerer.start(event_trigger(), Store("stays"))
    leaves = triggerer.start(event_trigger(match=ODD), Store("leaves"))
    await triggerer.work(5)
    await triggerer.end(leaves)
    put(bench, 1)
    await triggerer.work(30)

    assert triggerer.stored_ids(stays) == ["m1"]
    assert bench.states == {}


async def test_a_subclass_that_chooses_by_other_means_is_served_alike(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2)
    triggerer.start(Second("orders", wake_on_events=False, unmatched="acknowledge"), Store())
    await triggerer.work(15)

    assert triggerer.stored_ids() == ["m2"]


class Second(WorkflowInboxEventTrigger):
    """Wants the second of each batch."""

    def _sift(self, messages: Any, pace: Any) -> Any:
        return messages[1:2], {}
