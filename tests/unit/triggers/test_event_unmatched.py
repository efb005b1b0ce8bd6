"""Messages that no watcher of an inbox wants, and those that one cannot take."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from airflow_provider_workflow.triggers import event_batch
from tests.unit.counted import Counted
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import Triggerer, event_trigger
from tests.unit.triggers.watched import EVEN, FAILS, ODD, count_of_leases, put
from tests.unit.workbench import Workbench

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


async def test_what_no_watcher_wants_is_released_once_and_then_left_to_its_lease(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    put(bench, 1, 2)
    triggerer.start(event_trigger(match=EVEN))
    with caplog.at_level(logging.WARNING):
        await triggerer.work(120)

    assert triggerer.stored_ids() == ["m2"]
    assert bench.states == {"m1": "leased"}
    assert count_of_leases(bench, "m1") == 2
    assert bench.service.count("release") == 1
    assert caplog.text.count("no watcher in this triggerer selects message m1") == 1


async def test_what_no_watcher_wants_goes_to_one_that_begins_a_little_later(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger(match=EVEN))
    await triggerer.work(3)
    late = triggerer.start(event_trigger(match=ODD))
    await triggerer.work(20)

    assert triggerer.stored_ids(late) == ["m1"]
    assert bench.states == {}


async def test_a_message_that_match_fails_on_holds_up_nothing_and_ends_in_quarantine(
    bench: Workbench,
    triggerer: Triggerer,
    held_clock: FakeClock,
    counted: Counted,
    caplog: pytest.LogCaptureFixture,
) -> None:
    put(bench, 1)
    bench.put("good", payload={"n": "x"})
    number = triggerer.start(event_trigger(match=FAILS))
    with caplog.at_level(logging.ERROR):
        for _ in range(6):
            await triggerer.work(20)
            bench.service.store.leases.expire()
            await held_clock.elapse(60)

    assert triggerer.stored_ids() == ["good"]
    assert bench.states == {"m1": "quarantined"}
    assert bench.service.count("release") == 0
    assert not triggerer.runner.triggers[number]["task"].done()
    assert caplog.text.count("message m1 is rejected") == 1
    assert counted.totals["rejected"] == 1
    assert counted.totals["emitted"] == 1


async def test_a_message_that_one_rejects_and_another_wants_is_not_acknowledged_and_comes_to_it_once(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    bench.put("good", payload={"n": "x"})
    every = triggerer.start(event_trigger())
    triggerer.start(event_trigger(match=FAILS))
    for _ in range(3):
        await triggerer.work(20)
        bench.service.store.leases.expire()
        await held_clock.elapse(60)

    assert triggerer.stored_ids(every) == ["m1", "good"]
    assert "good" not in bench.states
    assert bench.states["m1"] == "leased"


async def test_a_message_is_offered_again_when_the_one_who_rejected_it_has_left(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    triggerer.start(event_trigger(match=EVEN))
    wrong = triggerer.start(event_trigger(match=FAILS))
    await triggerer.work(5)
    await triggerer.end(wrong)
    fixed = triggerer.start(event_trigger(match=ODD))
    bench.service.store.leases.expire()
    await triggerer.work(70)

    assert triggerer.stored_ids(fixed) == ["m1"]
    assert bench.states == {}


async def test_any_payload_crosses_and_a_message_too_deep_for_it_is_rejected(
    bench: Workbench,
    triggerer: Triggerer,
    held_clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hostile = {"\0": "\ud800", "__classname__": 2**70}
    bench.put("hostile", payload=hostile)
    bench.put("deep", payload={"n": 1})

    def encoded(message: Any) -> str:
        if message["id"] == "deep":
            raise ValueError("it is nested too deep")
        return json.dumps(message)

    monkeypatch.setattr(event_batch, "encoded", encoded)
    triggerer.start(event_trigger())
    with caplog.at_level(logging.ERROR):
        await triggerer.work(15)

    assert [each["payload"] for each in triggerer.stored_messages()] == [hostile]
    assert bench.states == {"deep": "leased"}
    assert "message deep is rejected" in caplog.text
