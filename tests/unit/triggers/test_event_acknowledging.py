"""Acknowledgements of asset events: when they are sent, and what follows if they fail."""

from __future__ import annotations

import logging

import pytest

from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.triggerer import Triggerer, event_trigger
from tests.unit.workbench import Workbench

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")

LEASES = 6
"""Seconds after which a message that was there at the beginning is leased and offered, with some to spare."""
DELAY = 3
"""Seconds from a stored event to its acknowledgement."""


async def stored(triggerer: Triggerer) -> None:
    """Let the events of a first lease be stored."""
    await triggerer.clock.elapse(LEASES)
    triggerer.store()
    await triggerer.clock.settle()


async def test_an_acknowledgement_is_sent_some_seconds_after_the_event_is_stored(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a", "b")
    triggerer.start(event_trigger())
    await stored(triggerer)
    await held_clock.elapse(DELAY - 1)
    assert bench.service.count("ack") == 0

    await held_clock.elapse(1)
    assert bench.states == {}
    assert bench.service.count("ack") == 1


async def test_an_acknowledgement_is_sent_again_after_a_transient_error(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="ack", status=503, times=3)
    triggerer.start(event_trigger())
    await stored(triggerer)
    counts = []
    for seconds in (DELAY, 5, 10, 20):
        await held_clock.elapse(seconds)
        counts.append(bench.service.count("ack"))

    assert counts == [1, 2, 3, 4]
    assert bench.states == {}
    assert "could not be" not in caplog.text


async def test_one_that_fails_holds_up_no_other(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a", "b")
    bench.service.fault("status", operation="ack", status=503, times=1)
    triggerer.start(event_trigger(lease_limit=1, min_interval=1))
    await triggerer.work(9)
    assert bench.states == {"a": "leased"}

    await triggerer.work(5)
    assert bench.states == {}


async def test_the_attempts_end_with_the_lease(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a", "b")
    bench.service.fault("status", operation="ack", status=503, times=None)
    triggerer.start(event_trigger(lease_seconds=400))
    await triggerer.work(300)
    assert "could not be acknowledged" not in caplog.text

    with caplog.at_level(logging.WARNING):
        await triggerer.work(200)
    text = (
        "2 messages are redelivered when their lease expires, as they could not be acknowledged or released"
    )
    assert caplog.text.count(text) == 1


@pytest.mark.parametrize("code", ["lease_expired", "made_up"])
async def test_after_a_permanent_error_it_is_not_sent_again(
    bench: Workbench,
    triggerer: Triggerer,
    held_clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
    code: str,
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="ack", status=400, code=code)
    triggerer.start(event_trigger())
    await triggerer.work(60)

    assert bench.service.count("ack") == 1
    assert bench.states == {"a": "leased"}
    assert "could not be acknowledged or released" in caplog.text


async def test_a_release_that_fails_is_left_to_the_end_of_the_lease(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="release", status=503)
    watcher = triggerer.start(event_trigger())
    triggerer.start(event_trigger(match="id == 'other'"))
    await stored(triggerer)
    await triggerer.end(watcher)
    await held_clock.elapse(60)

    assert bench.service.count("release") == 1
    assert bench.states == {"a": "leased"}
    assert "could not be acknowledged or released" in caplog.text
