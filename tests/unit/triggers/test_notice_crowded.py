"""The doorbell of an inbox of many pages, and what it says of quarantined messages."""

from __future__ import annotations

from itertools import pairwise

import pytest

from airflow_provider_workflow.triggers.notice import MOST_PAGES
from tests.unit.counted import Counted
from tests.unit.triggers.day import Day
from tests.unit.triggers.notices import lines, said, trigger
from tests.unit.workbench import INBOX, Workbench

__all__ = ["said"]


@pytest.fixture
def crowd(bench: Workbench) -> None:
    """5,000 messages that cannot be leased, half of them leased, half of them quarantined."""
    leases = bench.service.store.leases
    for group in range(50):
        bench.put(*[f"{group}-{n}" for n in range(100)], lease_count=4 * (group % 2))
        lease_id = leases.lease(bench.inbox_id, 3600, 100)["lease_id"]
        if group % 2:
            leases.release(bench.inbox_id, lease_id)


@pytest.mark.usefixtures("crowd")
async def test_among_five_thousand_it_looks_at_ten_pages_at_most(bench: Workbench, day: Day) -> None:
    # There is one in doubt as it begins, as it cannot know; and for the new one when it is announced.
    day.put(200.5, "new")
    events = await day.events(trigger(), until=220)

    assert [(second, payload["certain"]) for second, payload in events] == [(0, False), (200.5, False)]
    assert max(day.pages) == MOST_PAGES
    assert bench.service.count("lease") == 0


@pytest.mark.usefixtures("crowd")
async def test_among_five_thousand_there_is_a_notice_in_doubt_for_what_it_does_not_see_at_once(
    bench: Workbench, day: Day
) -> None:
    # Nothing is known of the order of a list: here the new one stands in the middle.
    middle = list(bench.service.store.messages.queue(bench.inbox_id).live.values())[1000]
    day.at(200.5, lambda: setattr(middle, "status", "available"), told=True)
    events = await day.events(trigger(), until=220)

    assert [(second, payload["certain"]) for second, payload in events] == [(0, False), (200.5, False)]


@pytest.mark.usefixtures("crowd")
async def test_among_five_thousand_there_is_a_notice_every_five_minutes_for_leases_that_may_have_expired(
    bench: Workbench, day: Day
) -> None:
    notices = await day.notices(trigger(), until=1000)

    assert len(notices) == 4
    assert all(300 <= later - earlier <= 360 for earlier, later in pairwise(notices))


@pytest.mark.usefixtures("crowd")
async def test_among_five_thousand_there_is_no_storm_of_notices_in_doubt(bench: Workbench, day: Day) -> None:
    for second in range(1, 100):
        day.at(second, lambda: None, told=True)

    assert await day.notices(trigger(renotify_seconds=20), until=101) == [0, 20, 40, 60, 80, 100]


@pytest.mark.usefixtures("crowd")
async def test_among_five_thousand_there_is_a_notice_in_doubt_for_what_came_while_it_was_out_of_reach(
    bench: Workbench, day: Day
) -> None:
    day.at(100, lambda: bench.service.fault("status", status=503, times=None))
    day.at(200, bench.service.emulator.faults.clear)
    events = await day.events(trigger(), until=299)

    assert [payload["certain"] for _, payload in events] == [False, False]
    assert events[1][0] > 200


@pytest.mark.parametrize("order", ["oldest", "newest"])
async def test_a_list_of_ten_pages_is_read_whole(bench: Workbench, day: Day, order: str) -> None:
    bench.service.store.configure(list_order=order, page_size=10)
    bench.put(*[f"m{number:02}" for number in range(99)])
    bench.service.store.leases.lease(bench.inbox_id, 3600, 99)
    bench.put("available")
    events = await day.events(trigger(), until=1)

    assert [payload["certain"] for _, payload in events] == [True]
    assert day.pages == [10 if order == "oldest" else 1]


async def test_a_service_that_shows_one_page_for_ever_is_not_asked_for_ever(
    bench: Workbench, day: Day
) -> None:
    page = {"results": [], "previous": None, "next": "https://service/messages?cursor=same"}
    bench.service.fault("status", operation="list_messages", status=200, json=page, times=None)
    await day.notices(trigger(), until=1)

    assert day.pages == [2]


async def test_each_quarantined_message_is_reported_once(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture, counted: Counted
) -> None:
    bench.put("a", "b", lease_count=4)
    bench.hook.release_messages(INBOX, bench.lease().lease_id)
    await day.notices(trigger(), until=600)

    text = "is in quarantine; it is not delivered again and starts no run"
    assert [line for line in lines(caplog) if "quarantine" in line] == [
        f"ERROR Inbox orders: message {each} {text}" for each in ("a", "b")
    ]
    assert counted.totals["quarantined"] == 2
