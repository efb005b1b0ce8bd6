"""Watchers of one inbox in Airflow's own trigger runner: one poller, each its messages, nothing dropped."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import pytest

from airflow_provider_workflow.triggers import emitted
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from tests.unit.counted import Counted
from tests.unit.triggers.triggerer import (
    Clockwork,
    Store,
    Triggerer,
    clockwork,
    event_trigger,
    triggerer,
)
from tests.unit.workbench import Workbench

__all__ = ["clockwork", "triggerer"]

EVEN = "contains(`[0, 2, 4, 6, 8]`, payload.n)"
ODD = "contains(`[1, 3, 5, 7, 9]`, payload.n)"
FAILS = "length(payload.n) == `1`"
"""Fails on a number, which has no length."""


def put(bench: Workbench, *numbers: int) -> list[str]:
    ids = [f"m{number}" for number in numbers]
    bench.service.put(bench.inbox_id, *({"n": number} for number in numbers), ids=ids)
    return ids


def count_of_leases(bench: Workbench, message_id: str) -> int:
    (message,) = (each for each in bench.hook.list_messages("orders") if each["id"] == message_id)
    return int(message["message_attributes"]["lease_count"])


async def test_many_watchers_have_one_poller(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    for number in range(10):
        triggerer.start(event_trigger(match=f"payload.n == `{number}`"), Store(str(number)))
    await triggerer.work(62)

    # The first at 2 s, then after 5, 10, 20 and 40 s: as one watcher would.
    assert bench.service.count("lease") == 4
    assert bench.service.count("list_inboxes") + bench.service.count("get_inbox") <= 2


async def test_each_watcher_gets_what_it_wants_and_all_of_it_is_acknowledged(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
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
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger(), Store("one"))
    triggerer.start(event_trigger(match=ODD), Store("other"))
    await clockwork.advance(5)
    entries = list(triggerer.runner.events)
    assert len(entries) == 2
    triggerer.streams.confirm_persisted([entries[0].persist_seq])
    await clockwork.advance(30)
    assert bench.states == {"m1": "leased"}

    triggerer.streams.confirm_persisted([entries[1].persist_seq])
    await clockwork.advance(10)
    assert bench.states == {}


async def test_a_batch_whose_event_is_stored_late_holds_up_no_other(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    put(bench, 1, 2)
    triggerer.start(event_trigger(lease_limit=1), Store())
    await clockwork.advance(8)
    first, second = triggerer.runner.events
    triggerer.streams.confirm_persisted([second.persist_seq])
    await clockwork.advance(10)
    assert bench.states == {"m1": "leased"}

    triggerer.streams.confirm_persisted([first.persist_seq])
    await clockwork.advance(10)
    assert bench.states == {}


async def test_events_carry_a_batch_each_and_keep_their_distance(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    put(bench, *range(25))
    triggerer.start(event_trigger(lease_limit=10, min_interval=4), Store())
    moments = []
    for _ in range(30):
        await clockwork.advance(1)
        if triggerer.unstored:
            moments.append(clockwork.now)
        triggerer.store()
        await clockwork.settle()

    assert [payload["count"] for _, payload in triggerer.stored] == [10, 10, 5]
    assert [later - earlier for earlier, later in pairwise(moments)] == [4, 4]
    assert bench.states == {}


async def test_a_large_batch_is_several_events(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    bench.put("a", "b", "c", payload="x" * 400_000)
    triggerer.start(event_trigger(), Store())
    await triggerer.work(15)

    assert [payload["count"] for _, payload in triggerer.stored] == [2, 1]
    assert bench.service.summary("orders")["counters"]["leases"] == 1
    assert bench.states == {}


async def test_what_no_watcher_wants_is_released_once_and_then_left_to_its_lease(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    put(bench, 1, 2)
    triggerer.start(event_trigger(match=EVEN), Store())
    with caplog.at_level(logging.WARNING):
        await triggerer.work(120)

    assert triggerer.stored_ids() == ["m2"]
    assert bench.states == {"m1": "leased"}
    assert count_of_leases(bench, "m1") == 2
    assert bench.service.count("release") == 1
    assert caplog.text.count("no watcher in this triggerer wants message m1") == 1


async def test_what_no_watcher_wants_goes_to_one_that_begins_a_little_later(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger(match=EVEN), Store("even"))
    await triggerer.work(3)
    late = triggerer.start(event_trigger(match=ODD), Store("odd"))
    await triggerer.work(20)

    assert triggerer.stored_ids(late) == ["m1"]
    assert bench.states == {}


async def test_what_no_watcher_wants_is_acknowledged_where_that_is_asked_for(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    triggerer.start(event_trigger(match=EVEN, unmatched="acknowledge"), Store())
    await triggerer.work(70)
    put(bench, 1, 2)
    await triggerer.work(60)

    assert triggerer.stored_ids() == ["m2"]
    assert bench.states == {}
    assert bench.service.count("release") == 0


async def test_nothing_unwanted_is_acknowledged_while_other_watchers_may_be_about_to_begin(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger(match=EVEN, unmatched="acknowledge"), Store("even"))
    await triggerer.work(3)
    late = triggerer.start(event_trigger(match=ODD, unmatched="acknowledge"), Store("odd"))
    await triggerer.work(20)

    assert triggerer.stored_ids(late) == ["m1"]


async def test_nothing_unwanted_is_acknowledged_where_another_poller_has_the_inbox(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    triggerer.start(event_trigger(match=EVEN, unmatched="acknowledge"), Store("even"))
    triggerer.start(event_trigger(match=EVEN, unmatched="acknowledge", lease_limit=9), Store("more"))
    with caplog.at_level(logging.WARNING):
        await triggerer.work(70)
        put(bench, 1)
        await triggerer.work(120)

    assert bench.states == {"m1": "leased"}
    assert caplog.text.count("differ in lease_limit: they take messages from each other") == 1


async def test_a_message_that_match_fails_on_holds_up_nothing_and_ends_in_quarantine(
    bench: Workbench,
    triggerer: Triggerer,
    clockwork: Clockwork,
    counted: Counted,
    caplog: pytest.LogCaptureFixture,
) -> None:
    put(bench, 1)
    bench.put("good", payload={"n": "x"})
    number = triggerer.start(event_trigger(match=FAILS), Store())
    with caplog.at_level(logging.ERROR):
        for _ in range(6):
            await triggerer.work(20)
            bench.service.store.leases.expire()
            await clockwork.advance(60)

    assert triggerer.stored_ids() == ["good"]
    assert bench.states == {"m1": "quarantined"}
    assert bench.service.count("release") == 0
    assert not triggerer.runner.triggers[number]["task"].done()
    assert caplog.text.count("message m1 is rejected") == 1
    assert counted.totals["rejected"] == 1
    assert counted.totals["emitted"] == 1


async def test_a_message_that_one_rejects_and_another_wants_is_not_acknowledged_and_comes_to_it_once(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    put(bench, 1)
    bench.put("good", payload={"n": "x"})
    every = triggerer.start(event_trigger(), Store("every"))
    triggerer.start(event_trigger(match=FAILS), Store("fails"))
    for _ in range(3):
        await triggerer.work(20)
        bench.service.store.leases.expire()
        await clockwork.advance(60)

    assert triggerer.stored_ids(every) == ["m1", "good"]
    assert "good" not in bench.states
    assert bench.states["m1"] == "leased"


async def test_a_message_is_offered_again_when_the_one_who_rejected_it_has_left(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger(match=EVEN), Store("even"))
    wrong = triggerer.start(event_trigger(match=FAILS), Store("fails"))
    await triggerer.work(5)
    await triggerer.end(wrong)
    mended = triggerer.start(event_trigger(match=ODD), Store("fails"))
    bench.service.store.leases.expire()
    await triggerer.work(70)

    assert triggerer.stored_ids(mended) == ["m1"]
    assert bench.states == {}


async def test_any_payload_crosses_and_a_message_too_deep_for_it_is_rejected(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    hostile = {"\0": "\ud800", "__classname__": 2**70}
    bench.put("hostile", payload=hostile)
    bench.put("deep", payload={"n": 1})
    from airflow_provider_workflow.triggers import custody

    def carried(message: Any) -> Any:
        if message["id"] == "deep":
            raise ValueError("it is nested too deep")
        return genuine(message)

    genuine, custody.carried = custody.carried, carried  # type: ignore[attr-defined]
    try:
        triggerer.start(event_trigger(), Store())
        with caplog.at_level(logging.ERROR):
            await triggerer.work(15)
    finally:
        custody.carried = genuine  # type: ignore[attr-defined]

    assert [each["payload"] for each in triggerer.stored_messages()] == [hostile]
    assert bench.states == {"deep": "leased"}
    assert "message deep is rejected" in caplog.text


async def test_what_comes_again_is_marked(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
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
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bench, 1)
    store = Store()
    triggerer.start(event_trigger(), store)
    await clockwork.advance(5)
    assert triggerer.unstored
    await triggerer.crash()
    bench.service.store.leases.expire()

    monkeypatch.setattr(emitted, "_remembered", {})
    after = Triggerer(bench, clockwork)
    after.start(event_trigger(), Store(rows=store.rows))
    await after.work(15)
    assert [each["redelivered"] for each in after.stored_messages()] == [True]
    assert bench.states == {}
    await after.stop()


async def test_airflow_begins_to_store_an_event_only_after_it_was_remembered(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    put(bench, 1)
    store = Store()
    triggerer.start(event_trigger(), store)
    await clockwork.advance(5)

    assert triggerer.unstored
    assert [len(marks) for marks in store.rows.values()] == [1]


async def test_a_watcher_that_outlives_its_siblings_goes_on(
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
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
    bench: Workbench, triggerer: Triggerer, clockwork: Clockwork
) -> None:
    put(bench, 1, 2)
    triggerer.start(Second("orders", wake_on_events=False, unmatched="acknowledge"), Store())
    await triggerer.work(15)

    assert triggerer.stored_ids() == ["m2"]


class Second(WorkflowInboxEventTrigger):
    """Wants the second of each batch."""

    def _sift(self, messages: Any) -> Any:
        return messages[1:2], {}
