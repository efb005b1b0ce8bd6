"""Watchers that wait at the same time wake at the same moments."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.triggers.polling import TICK_SECONDS, wait_for
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.day import Day
from tests.unit.triggers.loops import FakeWakeUps
from tests.unit.triggers.notices import trigger
from tests.unit.workbench import Workbench


@pytest.mark.parametrize("seconds", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("now", [1000.125, 1_000_000.01])
async def test_a_wait_ends_at_the_tick_that_follows(
    now: float, seconds: float, fake_clock: FakeClock
) -> None:
    fake_clock.set(now)
    now = fake_clock.monotonic()
    await wait_for(None, seconds)

    [waited] = fake_clock.slept
    assert seconds <= waited < seconds + TICK_SECONDS
    assert (now + waited) / TICK_SECONDS == pytest.approx(round((now + waited) / TICK_SECONDS))


async def test_waits_begun_within_a_tick_of_each_other_end_together(fake_clock: FakeClock) -> None:
    wake_ups = FakeWakeUps()
    for now in (100.1, 100.2):
        fake_clock.set(now)
        await wait_for(wake_ups, 5.0)
        await wait_for(None, 5.0)

    assert fake_clock.slept == wake_ups.waited == [pytest.approx(5.15), pytest.approx(5.05)]


async def test_a_watcher_without_a_stream_wakes_once_for_each_look(bench: Workbench, day: Day) -> None:
    watcher = trigger(poll_interval=5.0, max_poll_interval=5.0, wake_on_events=False)
    await day.notices(watcher, until=20)

    assert day.clock.slept == [5.0, 5.0, 5.0, 5.0]
