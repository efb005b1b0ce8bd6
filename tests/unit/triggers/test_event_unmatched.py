"""Messages that no watcher of an inbox wants, and those that one cannot take."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.unit.counted import Counted
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import Triggerer, event_trigger
from tests.unit.triggers.watched import EVEN, FAILS, put
from tests.unit.workbench import Workbench

pytest.importorskip("airflow.triggers.shared_stream", reason="since Airflow 3.3")

from airflow_provider_workflow.triggers import event_producer


async def test_what_no_watcher_selects_is_left_to_its_lease(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    put(bench, 1, 2, 3)
    triggerer.start(event_trigger(match=EVEN, lease_limit=2))
    with caplog.at_level(logging.WARNING):
        await triggerer.work(120)

    assert triggerer.stored_ids() == ["m2"]
    assert bench.states == {"m1": "leased", "m3": "leased"}
    assert bench.service.count("release") == 0
    assert caplog.text.count("no watcher in this triggerer selects message m1") == 1
    assert caplog.text.count("no watcher in this triggerer") == 1


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
    with caplog.at_level(logging.WARNING):
        for _ in range(6):
            await triggerer.work(20)
            bench.service.store.messages.expire()
            await held_clock.elapse(60)

    assert triggerer.stored_ids() == ["good"]
    assert bench.states == {"m1": "quarantined"}
    assert not triggerer.runner.triggers[number]["task"].done()
    assert caplog.text.count("message m1 was rejected: match cannot be evaluated on it") == 5
    assert counted.totals["rejected"] == 5
    assert counted.totals["emitted"] == 1


async def test_a_message_that_match_fails_on_is_acknowledged_if_another_watcher_selects_it(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1)
    every = triggerer.start(event_trigger())
    triggerer.start(event_trigger(match=FAILS))
    await triggerer.work(20)

    assert triggerer.stored_ids(every) == ["m1"]
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

    monkeypatch.setattr(event_producer, "encoded", encoded)
    triggerer.start(event_trigger())
    with caplog.at_level(logging.WARNING):
        await triggerer.work(15)

    assert [each["payload"] for each in triggerer.stored_messages()] == [hostile]
    assert bench.states == {"deep": "leased"}
    assert "message deep was rejected" in caplog.text
