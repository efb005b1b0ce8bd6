"""Which inbox the trigger waits at: it is looked up by its name, once."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.client.errors import NotFoundError
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.loops import fire, trigger
from tests.unit.workbench import Workbench


async def test_a_missing_inbox_is_raised(bench: Workbench, fake_clock: FakeClock) -> None:
    with pytest.raises(NotFoundError, match="'nosuch'"):
        await fire(trigger(inbox="nosuch"))
    assert fake_clock.slept == []


@pytest.mark.parametrize("by", ["name", "id"])
async def test_an_inbox_that_is_deleted_while_the_trigger_waits_is_raised(
    bench: Workbench, fake_clock: FakeClock, by: str
) -> None:
    fake_clock.then(lambda: bench.hook.delete_inbox("orders"))
    with pytest.raises(NotFoundError):
        await fire(trigger(inbox="orders" if by == "name" else bench.inbox_id))


async def test_an_inbox_that_is_found_and_yet_not_there_is_raised(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.service.fault("status", operation="lease", status=404, times=None)
    with pytest.raises(NotFoundError):
        await fire(trigger())
    assert bench.service.count("lease") == 1
