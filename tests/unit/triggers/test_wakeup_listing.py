"""A look finds what may be leased, wherever it stands in the list, within ten pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import NotFoundError
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.triggers.wakeup import MOST_PAGES, Listed, Prober
from tests.unit.workbench import Workbench

PAGE = 10
"""Messages on a page of the emulator, so that a test needs fewer of them."""


class Looker(Prober):
    """Counts the pages of each look, and keeps what it was shown."""

    def __init__(self, client: Any, bench: Workbench) -> None:
        self.shown: list[types.Message] = []
        super().__init__(client, bench.inbox_id, self.shown.extend)
        self.bench = bench
        self.pages: list[int] = []

    async def poll(self) -> Listed:
        before = self.bench.service.count("list_messages")
        try:
            return await super().poll()
        finally:
            self.pages.append(self.bench.service.count("list_messages") - before)

    async def looks(self, most: int) -> int:
        """How many looks it takes to find something, at most so many."""
        for count in range(1, most + 1):
            if (await self.poll()).available:
                return count
        raise AssertionError(f"nothing was found in {most} looks")


@pytest.fixture
def order(request: pytest.FixtureRequest, bench: Workbench) -> str:
    """The order of the list; see ``both_orders``."""
    order: str = getattr(request, "param", "oldest")
    bench.service.store.configure(list_order=order, page_size=PAGE)
    return order


both_orders = pytest.mark.parametrize("order", ["oldest", "newest"], indirect=True)


@pytest.fixture
async def prober(bench: Workbench, order: str) -> AsyncIterator[Looker]:
    async with bench.hook.async_client() as client:
        yield Looker(client, bench)


@pytest.fixture
def fill(bench: Workbench) -> Callable[..., None]:
    """Puts messages that cannot be leased: leased ones and quarantined ones, in turn."""

    def fill(pages: int, seconds: int = 3600) -> None:
        for page in range(pages):
            bench.put(*[f"{page}-{n}-{seconds}" for n in range(PAGE)], lease_count=4 * (page % 2))
            lease_id = bench.service.store.leases.lease(bench.inbox_id, seconds, PAGE)["lease_id"]
            if page % 2:
                bench.service.store.leases.release(bench.inbox_id, lease_id)

    return fill


async def test_an_empty_inbox_is_seen_whole_with_one_page(prober: Looker) -> None:
    assert await prober.poll() == Listed(frozenset(), whole=True)
    assert prober.pages == [1]


async def test_what_is_available_is_found_and_named(prober: Looker, bench: Workbench) -> None:
    bench.put("a", "b", "c")
    bench.service.store.leases.lease(bench.inbox_id, 60, 1)

    assert (await prober.poll()).available == {"b", "c"}
    assert prober.pages == [1]
    assert [each["id"] for each in prober.shown] in (["a", "b", "c"], ["c", "b", "a"])


async def test_leased_and_quarantined_messages_are_not_available(
    prober: Looker, fill: Callable[..., None]
) -> None:
    fill(2)

    assert await prober.poll() == Listed(frozenset(), whole=True)


@pytest.mark.parametrize("pages", [2, 10])
async def test_a_list_of_up_to_ten_pages_is_seen_whole_each_time(
    prober: Looker, fill: Callable[..., None], pages: int
) -> None:
    fill(pages)
    for _ in range(3):
        assert await prober.poll() == Listed(frozenset(), whole=True)

    assert prober.pages == [pages] * 3


@both_orders
@pytest.mark.parametrize("pages", [10])
async def test_a_new_message_is_found_at_once_in_a_list_of_up_to_ten_pages(
    prober: Looker, bench: Workbench, fill: Callable[..., None], pages: int
) -> None:
    fill(pages)
    await prober.poll()
    bench.put("new")

    assert (await prober.poll()).available == {"new"}


async def test_no_look_reads_more_than_ten_pages(prober: Looker, fill: Callable[..., None]) -> None:
    fill(50)
    for _ in range(20):
        assert await prober.poll() == Listed()

    assert max(prober.pages) == MOST_PAGES


@both_orders
async def test_of_a_long_list_every_page_is_read_in_its_turn(
    prober: Looker, fill: Callable[..., None]
) -> None:
    fill(50)
    for _ in range(10):
        await prober.poll()

    assert len({each["id"] for each in prober.shown}) == 50 * PAGE


@both_orders
@pytest.mark.parametrize("known", [True, False])
async def test_what_comes_to_either_end_of_a_long_list_is_found(
    prober: Looker, bench: Workbench, fill: Callable[..., None], known: bool
) -> None:
    fill(50)
    for _ in range(10 if known else 0):
        await prober.poll()
    bench.put("new")

    assert await prober.looks(1 if known else 10)


@both_orders
async def test_a_lease_that_ran_out_in_the_middle_of_a_long_list_is_found(
    prober: Looker, bench: Workbench, fill: Callable[..., None], clock: ManualClock
) -> None:
    fill(25)
    fill(1, seconds=60)
    fill(25)
    for _ in range(10):
        await prober.poll()
    clock.advance(60)

    assert await prober.looks(10)


async def test_the_page_of_the_last_find_is_looked_at_again_first(
    prober: Looker, bench: Workbench, fill: Callable[..., None], clock: ManualClock
) -> None:
    fill(5)
    fill(1, seconds=60)
    fill(5)
    clock.advance(60)
    await prober.looks(3)
    prober.pages.clear()
    assert (await prober.poll()).available

    assert prober.pages == [2]


@both_orders
async def test_a_list_that_grows_by_many_pages_is_still_read_whole(
    prober: Looker, bench: Workbench, fill: Callable[..., None], clock: ManualClock
) -> None:
    fill(12)
    for _ in range(5):
        await prober.poll()
    fill(15)
    fill(1, seconds=60)
    fill(15)
    for _ in range(15):
        assert not (await prober.poll()).available
    clock.advance(60)

    assert await prober.looks(15)


async def test_a_list_that_has_become_short_is_seen_whole_again(
    prober: Looker, bench: Workbench, fill: Callable[..., None], clock: ManualClock
) -> None:
    fill(40, seconds=60)
    for _ in range(10):
        await prober.poll()
    bench.service.store.messages.queue(bench.inbox_id).live.clear()

    assert await prober.poll() == Listed(frozenset(), whole=True)
    assert prober.pages[-1] == 1
    fill(3)

    assert await prober.poll() == Listed(frozenset(), whole=True)


@pytest.mark.parametrize("status", [400, 404])
async def test_a_page_that_the_service_does_not_know_any_more_is_forgotten(
    prober: Looker, bench: Workbench, fill: Callable[..., None], status: int
) -> None:
    fill(12)
    await prober.poll()
    bench.service.fault("status", operation="list_messages", status=status, after=1, times=1)
    assert await prober.poll() == Listed()
    bench.put("new")

    assert await prober.looks(3)


async def test_a_page_that_is_forgotten_is_not_asked_for_again(
    prober: Looker, bench: Workbench, fill: Callable[..., None], clock: ManualClock
) -> None:
    fill(5)
    fill(1, seconds=60)
    fill(5)
    clock.advance(60)
    await prober.looks(3)
    bench.service.fault("status", operation="list_messages", status=400, after=1, times=1)

    assert await prober.poll() == Listed()
    assert await prober.looks(2)


async def test_a_service_that_shows_one_page_for_ever_is_not_listened_to_for_ever(
    prober: Looker, bench: Workbench
) -> None:
    page = {"results": [], "previous": None, "next": "https://service/messages?cursor=same"}
    bench.service.fault("status", operation="list_messages", status=200, json=page, times=None)
    await prober.poll()

    assert prober.pages == [2]


async def test_an_inbox_that_is_gone_is_raised(prober: Looker, bench: Workbench) -> None:
    bench.service.store.inboxes.delete(bench.inbox_id)

    with pytest.raises(NotFoundError):
        await prober.poll()


async def test_it_never_leases(prober: Looker, bench: Workbench, fill: Callable[..., None]) -> None:
    fill(12)
    bench.put("a")
    await prober.looks(5)

    assert bench.service.count("lease") == 0
    assert {each.operation for each in bench.service.requests} == {"token", "list_messages"}
