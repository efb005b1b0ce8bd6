"""The doorbell of an inbox of many pages, and what it says of quarantined messages."""

from __future__ import annotations

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
    leases = bench.service.store.messages
    for group in range(50):
        bench.put(*[f"{group}-{n}" for n in range(100)], lease_count=4 * (group % 2))
        lease_id = leases.lease(bench.inbox_id, 3600, 100)["lease_id"]
        if group % 2:
            leases.release(bench.inbox_id, lease_id)


@pytest.mark.usefixtures("crowd")
async def test_of_five_thousand_ten_pages_are_read_and_there_is_a_notice_a_minute_for_what_they_do_not_show(
    bench: Workbench, day: Day
) -> None:
    for second in range(1, 100):
        day.at(second, lambda: None, told=True)

    assert await day.notices(trigger(), until=250) == [0, 60, 120, 180, 240]
    assert max(day.pages) == MOST_PAGES
    assert bench.service.count("lease") == 0


@pytest.mark.parametrize("order", ["oldest", "newest"])
async def test_a_list_of_ten_pages_is_read_whole(bench: Workbench, day: Day, order: str) -> None:
    bench.service.store.configure(list_order=order, page_size=10)
    bench.put(*[f"m{number:02}" for number in range(99)])
    bench.service.store.messages.lease(bench.inbox_id, 3600, 99)
    bench.put("available")
    assert await day.notices(trigger(), until=1) == [0]
    assert day.pages == [10 if order == "oldest" else 1]


async def test_a_service_that_shows_one_page_for_ever_is_not_asked_for_ever(
    bench: Workbench, day: Day
) -> None:
    page = {"results": [], "previous": None, "next": "https://service/messages?cursor=same"}
    bench.service.fault("status", operation="list_messages", status=200, json=page, times=None)
    await day.notices(trigger(), until=1)

    assert day.pages == [MOST_PAGES]


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
