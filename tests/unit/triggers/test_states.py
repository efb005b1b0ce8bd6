"""An inbox that is not active: what the trigger waits for, and what it fires for."""

from __future__ import annotations

import logging

import pytest

from tests.unit.triggers.loops import FakeAsyncio, fire, trigger
from tests.unit.workbench import Workbench


async def test_an_inbox_that_initialises_is_waited_for(bench: Workbench, loop: FakeAsyncio) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initializing")

    def begin(count: int) -> None:
        if count == 2:
            bench.service.store.inboxes.force(bench.inbox_id, "active")
            bench.put("a")

    loop.then = begin
    assert (await fire(trigger()))["status"] == "leased"


async def test_a_paused_and_drained_inbox_fires_and_names_the_reason(
    bench: Workbench, loop: FakeAsyncio
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")

    assert await fire(trigger()) == {"status": "paused", "inbox_id": bench.inbox_id, "reason": "abandoned"}


async def test_a_reason_cannot_end_the_triggerer(bench: Workbench, loop: FakeAsyncio) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "\ud800\0")
    reason = (await fire(trigger()))["reason"]

    assert reason == r"\ud800\x00"


async def test_waiting_for_a_paused_inbox_names_the_reason_once(
    bench: Workbench, loop: FakeAsyncio, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")

    def resume(count: int) -> None:
        if count == 4:
            bench.service.store.inboxes.resume(bench.inbox_id)
            bench.put("a")

    loop.then = resume
    with caplog.at_level(logging.INFO):
        assert (await fire(trigger(on_paused="wait")))["status"] == "leased"
    said = [each.getMessage() for each in caplog.records if each.name.endswith("triggers.handing_over")]
    assert said == [
        "Inbox orders is paused (abandoned); waiting until it is resumed",
        "Inbox orders is paused no more",
    ]


@pytest.mark.parametrize("on_paused", ["fail", "wait"])
async def test_an_inbox_that_failed_to_initialise_fires_at_once(
    bench: Workbench, loop: FakeAsyncio, on_paused: str
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure", "subscribe_failed")
    event = await fire(trigger(on_paused=on_paused))

    assert event["status"] == "initialization_failure"
    assert event["reason"] == "subscribe_failed"
    assert loop.slept == [0]
