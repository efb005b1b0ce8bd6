"""Which inbox the trigger waits at: it is found by its name, once more where it is gone."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.client.errors import NotFoundError
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.session import MISSING_PAUSES
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.triggers.loops import fire, trigger
from tests.unit.workbench import Workbench


async def test_a_missing_inbox_is_raised_after_half_a_minute(bench: Workbench, fake_clock: FakeClock) -> None:
    with pytest.raises(NotFoundError, match="no inbox with the name or id 'nosuch'"):
        await fire(trigger(inbox="nosuch"))
    assert fake_clock.slept == [*MISSING_PAUSES]
    assert sum(MISSING_PAUSES) == 30


async def test_an_inbox_that_is_away_for_ten_seconds_fails_no_try(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """By its name: deleted while the trigger waits, and created again 10 s later."""

    def delete() -> None:
        bench.hook.delete_inbox("orders")
        fake_clock.at(fake_clock.now() + 10, create)

    def create() -> None:
        bench.service.open_inbox("orders")
        bench.put("a")

    fake_clock.then(delete)
    event = await fire(trigger())

    assert [each["id"] for each in HeldLease.from_hand_off(event["lease"]).messages] == ["a"]
    assert caplog.text.count("Inbox orders does not exist (any more); looking it up by its name") == 1


async def test_an_inbox_that_comes_and_goes_is_waited_for_each_time(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    def go() -> None:
        bench.service.fault("status", operation="lease", status=404, times=None)

    def come() -> None:
        bench.service.emulator.faults.clear()

    thrice = [nothing, go, *[nothing] * 3, come, nothing] * 3
    fake_clock.then(*thrice, lambda: bench.put("a"))
    assert (await fire(trigger()))["status"] == "leased"


async def test_an_inbox_that_was_deleted_and_created_again_is_found_by_its_name(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    def replace() -> None:
        bench.hook.delete_inbox("orders")
        bench.service.open_inbox("orders")
        bench.put("a")

    fake_clock.then(replace)
    event = await fire(trigger())
    assert event["inbox_id"] == bench.hook.get_inbox("orders")["id"] != bench.inbox_id
    assert [each["id"] for each in HeldLease.from_hand_off(event["lease"]).messages] == ["a"]


@pytest.mark.parametrize("by", ["name", "id"])
async def test_an_inbox_that_was_deleted_for_good_is_raised(
    bench: Workbench, fake_clock: FakeClock, by: str
) -> None:
    fake_clock.then(lambda: bench.hook.delete_inbox("orders"))
    with pytest.raises(NotFoundError):
        await fire(trigger(inbox="orders" if by == "name" else bench.inbox_id))
    assert (fake_clock.slept[-1] == MISSING_PAUSES[-1]) is (by == "name"), "an id never comes again"


async def test_an_inbox_that_is_found_and_yet_not_there_is_raised(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.service.fault("status", operation="lease", status=404, times=None)
    with pytest.raises(NotFoundError):
        await fire(trigger())
    assert bench.service.count("lease") == len(MISSING_PAUSES) + 1
