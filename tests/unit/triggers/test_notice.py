"""There are notices while an inbox has something to lease; nothing is leased to find out."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from itertools import pairwise

import pytest

from tests.unit.counted import Counted
from tests.unit.triggers.day import Day
from tests.unit.triggers.notices import said, trigger
from tests.unit.workbench import Workbench

__all__ = ["said"]


async def test_its_event_names_the_inbox_and_carries_no_message(bench: Workbench, day: Day) -> None:
    bench.put("a", payload={"secret": "of a customer"})

    assert await day.events(trigger(), until=1) == [
        (
            0,
            {
                "inbox": "orders",
                "inbox_id": bench.inbox_id,
                "workflow_conn_id": "workflow_default",
            },
        )
    ]


async def test_how_it_waits_is_logged_when_it_begins(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture
) -> None:
    await day.notices(trigger(), until=600)

    how = "by its event stream and by polling every 5 to 60 s"
    assert (
        caplog.text.count(f"Inbox orders at 127.0.0.1:{bench.service.port}: waiting for messages, {how}") == 1
    )


async def test_it_never_leases(bench: Workbench, day: Day) -> None:
    bench.put("a", "b")
    await day.notices(trigger(), until=600)

    assert bench.states == {"a": "available", "b": "available"}
    operations = {each.operation for each in bench.service.requests}
    assert operations == {"token", "list_inboxes", "get_inbox", "list_messages"}


async def test_it_keeps_silent_while_there_is_nothing(bench: Workbench, day: Day) -> None:
    assert await day.notices(trigger(), until=3600) == []


async def test_there_is_a_notice_when_a_message_is_announced(bench: Workbench, day: Day) -> None:
    day.put(100.5, "a")

    assert await day.notices(trigger(), until=150) == [100.5]


async def test_there_is_a_notice_for_a_message_that_nobody_announced_at_the_next_look(
    bench: Workbench, day: Day
) -> None:
    day.put(16, "a", told=False)

    assert await day.notices(trigger(), until=60) == [35]


async def test_there_is_a_notice_for_what_was_there_before_it_began(bench: Workbench, day: Day) -> None:
    bench.put("a")

    assert await day.notices(trigger(), until=30) == [0]


async def test_there_is_one_notice_for_a_burst(bench: Workbench, day: Day) -> None:
    for n in range(200):
        day.put(100 + n / 50, str(n))
    day.take(107)

    assert await day.notices(trigger(), until=1000) == [100]


async def test_there_are_notices_while_messages_remain_and_none_when_they_are_gone(
    bench: Workbench, day: Day
) -> None:
    day.put(100, "a", "b")
    day.take(250)

    assert await day.notices(trigger(renotify_seconds=60), until=1000) == [100, 160, 220]


async def test_there_is_a_notice_at_once_for_what_comes_after_the_inbox_was_drained(
    bench: Workbench, day: Day
) -> None:
    day.put(100, "a", "b")
    day.take(103)
    day.put(108, "c")

    assert await day.notices(trigger(), until=150) == [100, 108]


async def test_notices_are_five_seconds_apart_however_fast_messages_come_and_go(
    bench: Workbench, day: Day
) -> None:
    for second in range(100, 200):
        day.put(second, f"{second}")
        day.take(second + 0.5)
        day.put(second + 0.6, f"{second} again")
    notices = await day.notices(trigger(), until=300)

    assert len(notices) >= 15
    assert min(later - earlier for earlier, later in pairwise(notices)) >= 5


async def test_a_lease_that_expired_leads_to_a_notice_though_nothing_tells(
    bench: Workbench, day: Day
) -> None:
    day.put(100, "a", "b")
    day.take(103, seconds=300, acknowledge=False)
    notices = await day.notices(trigger(max_poll_interval=60), until=500)

    assert notices[0] == 100
    assert 403 <= notices[1] <= 463
    assert bench.states == {"a": "available", "b": "available"}


async def test_it_works_without_the_event_stream(bench: Workbench, day: Day) -> None:
    day.put(100, "a")

    assert await day.notices(trigger(wake_on_events=False), until=140) == [135]
    assert day.listeners == 0


async def test_its_looks_are_further_and_further_apart_while_nothing_happens(
    bench: Workbench, day: Day
) -> None:
    await day.notices(trigger(), until=275)

    # At 0, 5, 15, 35, 75, 135, 195 and 255 s.
    assert len(day.pages) == 8


async def test_a_stream_that_never_stops_speaking_makes_it_look_once_a_second_at_most(
    bench: Workbench, day: Day
) -> None:
    for n in range(1000):
        day.at(n / 100, lambda: None, told=True)
    await day.notices(trigger(), until=11)

    assert sum(day.pages) <= 11


async def test_its_notices_are_counted(bench: Workbench, day: Day, counted: Counted) -> None:
    bench.put("a")
    await day.notices(trigger(), until=70)

    assert counted.totals == {"notices": 2}
    assert counted.tags == [{"inbox": "orders", "conn_id": "workflow_default"}]


async def test_the_end_of_the_trigger_closes_its_stream_and_its_session(bench: Workbench, day: Day) -> None:
    bench.put("a")
    day.ends(100)
    async with aclosing(trigger().run()) as events:  # type: ignore[type-var]
        await anext(events)
        assert day.listeners == 1

    assert day.listeners == 0


async def test_a_trigger_that_is_cancelled_while_it_looks_ends(bench: Workbench, day: Day) -> None:
    bench.service.fault("hold", operation="list_messages")
    running = asyncio.ensure_future(day.notices(trigger(), until=100))
    await asyncio.to_thread(bench.service.wait_until_held)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    bench.service.release(drop=True)

    assert day.listeners == 0


async def test_two_watchers_of_an_inbox_share_its_stream(bench: Workbench) -> None:
    bench.put("a")
    runs = [trigger(renotify_seconds=each).run() for each in (60, 70)]
    try:
        for run in runs:
            assert (await anext(run)).payload["inbox_id"] == bench.inbox_id
        assert bench.service.count("events") == 1
    finally:
        for run in runs:
            await run.aclose()  # type: ignore[attr-defined]
