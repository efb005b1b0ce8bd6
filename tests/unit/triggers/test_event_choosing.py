"""What a watcher selects is found out in a thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import Triggerer, beside, event_trigger
from tests.unit.workbench import Workbench

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


async def test_twenty_watchers_select_from_a_megabyte_in_threads_and_each_gets_what_it_wants(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    def noted(watcher: Any, messages: Any) -> Any:
        threads.add(threading.get_ident())
        return sift(watcher, messages)

    sift = WorkflowInboxEventTrigger.matching
    monkeypatch.setattr(WorkflowInboxEventTrigger, "matching", noted)
    for number in range(20):
        bench.put(f"m{number:02}", payload={"n": number, "items": [{"price": p} for p in range(3_000)]})
    watchers = [
        triggerer.start(event_trigger(match=f"payload.n == `{number}` && sort_by(payload.items, &price)"))
        for number in range(20)
    ]
    await triggerer.work(20)

    assert [triggerer.stored_ids(each) for each in watchers] == [[f"m{number:02}"] for number in range(20)]
    assert bench.states == {}
    assert bench.service.summary("orders")["counters"]["leases"] == 1
    assert threads
    assert threading.get_ident() not in threads


async def test_a_watcher_that_is_ended_while_it_selects_acknowledges_nothing(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waiting(watcher: Any, messages: Any) -> Any:
        selecting.set()
        assert ended.wait(10)
        return messages, []

    selecting, ended = threading.Event(), threading.Event()
    monkeypatch.setattr(WorkflowInboxEventTrigger, "matching", waiting)
    bench.put("a")
    number = triggerer.start(event_trigger())
    moving = asyncio.create_task(held_clock.elapse(5))
    await beside(lambda: selecting.wait(10))
    await triggerer.end(number)
    ended.set()
    await moving
    await held_clock.elapse(10)

    assert triggerer.unstored == []
    assert bench.service.count("ack") == 0
    assert bench.states == {"a": "available"}
