"""An inbox that is not active: what the trigger waits for, and what it fires for."""

from __future__ import annotations

import logging

import pytest

from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.triggers.loops import fire, trigger
from tests.unit.workbench import Workbench


async def test_an_inbox_that_initializes_is_waited_for(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initializing")

    def begin() -> None:
        bench.service.store.inboxes.force(bench.inbox_id, "active")
        bench.put("a")

    fake_clock.then(begin)
    assert (await fire(trigger()))["status"] == "leased"


async def test_a_paused_and_drained_inbox_fires_and_names_the_reason(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")

    assert await fire(trigger()) == {"status": "paused", "reason": "abandoned"}


async def test_a_reason_cannot_end_the_triggerer(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "\ud800\0")
    reason = (await fire(trigger()))["reason"]

    assert reason == r"\ud800\x00"


async def test_waiting_for_a_paused_inbox_names_the_reason_once(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")

    def resume() -> None:
        bench.service.store.inboxes.resume(bench.inbox_id)
        bench.put("a")

    fake_clock.then(nothing, nothing, resume)
    with caplog.at_level(logging.INFO):
        assert (await fire(trigger(on_paused="wait")))["status"] == "leased"
    said = [each.getMessage() for each in caplog.records if each.name.endswith("triggers.inbox")]
    assert said[1:] == [
        "Inbox orders is paused (abandoned): new events are dropped until it is resumed",
        "Inbox orders is active",
    ]


@pytest.mark.parametrize(
    ("wakes", "how"),
    [(True, "by its event stream and by polling every 5 to 60 s"), (False, "by polling every 5 to 60 s")],
)
async def test_how_it_waits_is_logged_when_it_begins(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture, wakes: bool, how: str
) -> None:
    bench.put("a")
    with caplog.at_level(logging.INFO):
        await fire(trigger(wake_on_events=wakes))

    said = [each.getMessage() for each in caplog.records if each.name.endswith("triggers.inbox")]
    assert said[:1] == [f"Inbox orders at 127.0.0.1:{bench.service.port}: waiting for messages, {how}"]


@pytest.mark.parametrize("on_paused", ["fail", "wait"])
async def test_an_inbox_that_failed_to_initialize_fires_at_once(
    bench: Workbench, fake_clock: FakeClock, on_paused: str
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure", "subscribe_failed")
    event = await fire(trigger(on_paused=on_paused))

    assert event["status"] == "initialization_failure"
    assert event["reason"] == "subscribe_failed"
    assert fake_clock.slept == []
