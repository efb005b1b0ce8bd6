"""Watchers of one inbox in Airflow's own trigger runner: one poller, each its messages, nothing dropped."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.lease import delivery_count
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import Triggerer, event_trigger
from tests.unit.triggers.watched import EVEN, ODD, put
from tests.unit.workbench import Workbench

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


async def test_many_watchers_have_one_poller(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    for number in range(10):
        triggerer.start(event_trigger(match=f"payload.n == `{number}`"))
    await triggerer.work(62)

    # The first at 2 s, then after 5, 10, 20 and 40 s: as one watcher would.
    assert bench.service.count("lease") == 4
    assert bench.service.count("list_inboxes") + bench.service.count("get_inbox") <= 2


async def test_each_watcher_gets_what_it_wants_and_all_of_it_is_acknowledged(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    ids = put(bench, *range(10))
    even = triggerer.start(event_trigger(match=EVEN))
    odd = triggerer.start(event_trigger(match=ODD))
    every = triggerer.start(event_trigger())
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
    triggerer.start(event_trigger())
    triggerer.start(event_trigger(match=ODD))
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
    triggerer.start(event_trigger(lease_limit=1))
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
    triggerer.start(event_trigger(lease_limit=10, min_interval=4))
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
    triggerer.start(event_trigger())
    await triggerer.work(15)

    assert [payload["count"] for _, payload in triggerer.stored] == [2, 1]
    assert bench.service.summary("orders")["counters"]["leases"] == 1
    assert bench.states == {}


async def test_what_is_redelivered_shows_its_delivery_count(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    bench.service.fault("status", operation="ack", status=400, code="lease_expired", times=1)
    triggerer.start(event_trigger())
    await triggerer.work(10)
    bench.service.store.messages.expire()
    put(bench, 2)
    await triggerer.work(30)

    counts = [(each["id"], delivery_count(each)) for each in triggerer.stored_messages()]
    assert counts == [("m1", 1), ("m1", 2), ("m2", 1)]
    assert bench.states == {}


async def test_a_watcher_that_outlives_its_siblings_goes_on(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    stays = triggerer.start(event_trigger())
    leaves = triggerer.start(event_trigger(match=ODD))
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
    triggerer.start(Second("orders", wake_on_events=False))
    await triggerer.work(15)

    assert triggerer.stored_ids() == ["m2"]


class Second(WorkflowInboxEventTrigger):
    """Wants the second of each batch."""

    def matching(self, messages: Any) -> Any:
        return messages[1:2], []
