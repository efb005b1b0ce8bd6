"""What a watcher wants is found out in a thread, before its batch is offered to it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.event_batch import Batch
from airflow_provider_workflow.triggers.event_poller import Stream
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import Triggerer, beside, event_trigger
from tests.unit.workbench import Workbench

pytest.importorskip("airflow.triggers.shared_stream", reason="Airflow acknowledges asset events since 3.3")

from airflow_provider_workflow.triggers.event_watcher import EventWatcher, watchers_of


class Choosing:
    """Notes in which threads watchers choose; holds them up there, where it is told to."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.gate: threading.Event | None = None
        self.begun = threading.Event()

    def __call__(self, watcher: EventWatcher, batch: Batch) -> Any:
        self.threads.append(threading.get_ident())
        self.begun.set()
        if self.gate is not None:
            assert self.gate.wait(10)
        return choose(watcher, batch)


choose = EventWatcher.choose


@pytest.fixture
def choosing(monkeypatch: pytest.MonkeyPatch) -> Choosing:
    noted = Choosing()
    monkeypatch.setattr(EventWatcher, "choose", lambda *given: noted(*given))
    return noted


def watcher_of(trigger: WorkflowInboxEventTrigger) -> EventWatcher:
    """A watcher that wants every message."""
    return EventWatcher(Stream.of(vars(trigger)), lambda messages: (messages, {}))


async def test_twenty_watchers_choose_from_a_megabyte_in_a_thread_and_each_gets_what_it_wants(
    bench: Workbench,
    triggerer: Triggerer,
    held_clock: FakeClock,
    choosing: Choosing,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(20):
        bench.put(f"m{number:02}", payload={"n": number, "items": [{"price": p} for p in range(3_000)]})
    watchers = [
        triggerer.start(
            event_trigger(match=f"payload.n == `{number}` && sort_by(payload.items, &price)"),
        )
        for number in range(20)
    ]
    await triggerer.work(20)

    assert [triggerer.stored_ids(each) for each in watchers] == [[f"m{number:02}"] for number in range(20)]
    assert bench.states == {}
    assert bench.service.summary("orders")["counters"]["leases"] == 1
    assert len(choosing.threads) >= 20
    assert threading.get_ident() not in choosing.threads


async def test_a_watcher_that_begins_while_others_choose_chooses_before_the_batch_is_offered(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, choosing: Choosing
) -> None:
    bench.put("a")
    choosing.gate = threading.Event()
    first = triggerer.start(event_trigger())
    moving = asyncio.create_task(held_clock.elapse(5))
    await beside(lambda: choosing.begun.wait(10))
    second = triggerer.start(event_trigger())
    await asyncio.sleep(0)
    choosing.gate.set()
    await moving
    await triggerer.work(10)

    assert triggerer.stored_ids(first) == triggerer.stored_ids(second) == ["a"]
    assert bench.service.summary("orders")["counters"]["leases"] == 1
    assert bench.states == {}


async def test_a_watcher_that_cannot_choose_refuses_and_costs_the_others_nothing(
    bench: Workbench,
    triggerer: Triggerer,
    held_clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> bool:
        raise RuntimeError("made up")

    monkeypatch.setattr("airflow_provider_workflow.dispatch.routing.matcher", lambda *_: fail)
    bench.put("a")
    triggerer.start(event_trigger(match="payload"))
    other = triggerer.start(event_trigger())
    await triggerer.work(20)

    assert triggerer.stored_ids(other) == ["a"]
    assert bench.states == {"a": "leased"}, "nobody acknowledges what a watcher refuses"
    assert "Inbox orders: message a is rejected" in caplog.text
    assert "its watcher failed: RuntimeError" in caplog.text


async def test_a_batch_that_nobody_chose_from_is_left_for_another_lease() -> None:
    async def batches() -> Any:
        yield batch

    batch = Batch("inbox-1", HeldLease("l", 2e9, "", []), [])
    trigger = event_trigger()
    watcher = watcher_of(trigger)

    assert [event async for event in watcher.events(batches())] == []
    assert batch.report(acked=1, failed=0, rejected=0).stored == []


async def test_only_watchers_that_have_not_ended_choose() -> None:
    trigger = event_trigger()
    stream = Stream.of(vars(trigger))
    watchers = [watcher_of(trigger) for _ in range(2)]
    assert watchers_of(stream) == watchers

    for _ in range(2):
        watchers[0].leave()
        assert watchers_of(stream) == watchers[1:]
    watchers[1].leave()
    assert watchers_of(stream) == []
