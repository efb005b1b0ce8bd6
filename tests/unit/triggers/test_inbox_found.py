"""Which inbox the trigger waits at: it is found by its name, once more where it is gone."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.client.errors import NotFoundError
from airflow_provider_workflow.leases import HeldLease
from tests.unit.triggers.loops import FakeAsyncio, fire, trigger
from tests.unit.workbench import Workbench


async def test_a_missing_inbox_is_raised(bench: Workbench, loop: FakeAsyncio) -> None:
    with pytest.raises(NotFoundError):
        await fire(trigger(inbox="nosuch"))


async def test_an_inbox_that_was_deleted_and_created_again_is_found_by_its_name(
    bench: Workbench, loop: FakeAsyncio
) -> None:
    def replace(count: int) -> None:
        if count == 2:
            bench.hook.delete_inbox("orders")
            bench.service.open_inbox("orders")
            bench.put("a")

    loop.then = replace
    event = await fire(trigger())
    assert event["inbox_id"] == bench.hook.get_inbox("orders")["id"] != bench.inbox_id
    assert [each["id"] for each in HeldLease.taken_over(event["lease"]).messages] == ["a"]


@pytest.mark.parametrize("by", ["name", "id"])
async def test_an_inbox_that_was_deleted_for_good_is_raised(
    bench: Workbench, loop: FakeAsyncio, by: str
) -> None:
    loop.then = lambda count: bench.hook.delete_inbox("orders") if count == 2 else None
    with pytest.raises(NotFoundError):
        await fire(trigger(inbox="orders" if by == "name" else bench.inbox_id))


async def test_an_inbox_that_is_found_and_yet_not_there_is_raised(
    bench: Workbench, loop: FakeAsyncio
) -> None:
    bench.service.fault("status", operation="lease", status=404, times=None)
    with pytest.raises(NotFoundError):
        await fire(trigger())
    assert bench.service.count("lease") == 2
