"""``max_wait_seconds``: nothing is leased until a whole batch is available, or that time is over."""

from __future__ import annotations

import pytest

from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import Store, Triggerer, event_trigger
from tests.unit.triggers.watched import put
from tests.unit.workbench import Workbench

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


def leases(bench: Workbench) -> int:
    return int(bench.service.summary("orders")["counters"].get("leases", 0))


async def test_messages_that_come_within_the_wait_share_an_event(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger(max_wait_seconds=30), Store())
    await triggerer.work(20)
    assert leases(bench) == 0
    put(bench, 2)
    await triggerer.work(25)

    assert [payload["count"] for _, payload in triggerer.stored] == [2]
    assert bench.states == {}


async def test_a_whole_batch_is_leased_at_once(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2, 3)
    triggerer.start(event_trigger(max_wait_seconds=3000, lease_limit=3), Store())
    await triggerer.work(10)

    assert [payload["count"] for _, payload in triggerer.stored] == [3]


async def test_the_wait_ends_when_the_batch_is_full(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger(max_wait_seconds=3000, lease_limit=2), Store())
    await triggerer.work(60)
    put(bench, 2)
    await triggerer.work(10)

    assert [payload["count"] for _, payload in triggerer.stored] == [2]


async def test_each_batch_is_waited_for_anew(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger(max_wait_seconds=30), Store())
    await triggerer.work(60)
    assert triggerer.stored_ids() == ["m1"]
    put(bench, 2)
    await triggerer.work(20)
    assert triggerer.stored_ids() == ["m1"]
    await triggerer.work(80)

    assert triggerer.stored_ids() == ["m1", "m2"]


async def test_an_error_of_the_list_does_not_begin_the_wait_anew(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger(max_wait_seconds=30), Store())
    await triggerer.work(15)
    bench.service.fault("status", operation="list_messages", status=403, times=1)
    await triggerer.work(30)

    assert triggerer.stored_ids() == ["m1"]


async def test_messages_that_others_have_leased_are_not_counted(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2)
    bench.hook.lease_messages("orders", lease_seconds=900, lease_limit=2)
    put(bench, 3)
    triggerer.start(event_trigger(max_wait_seconds=30, lease_limit=3), Store())
    await triggerer.work(20)
    assert triggerer.stored_ids() == []
    await triggerer.work(20)

    assert triggerer.stored_ids() == ["m3"]
