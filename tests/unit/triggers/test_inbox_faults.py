"""Transient errors are survived."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.triggers.loops import fire, trigger
from tests.unit.workbench import Workbench


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the trigger itself logged."""
    texts = [each.getMessage() for each in caplog.records if each.name.endswith("triggers.inbox")]
    return [text for text in texts if "waiting for messages" not in text and " is active" not in text]


@pytest.mark.parametrize(
    "fault",
    [{"kind": "status", "status": 503}, {"kind": "drop"}, {"kind": "truncate"}],
)
async def test_a_fault_that_passes_is_logged_once_and_survived(
    bench: Workbench, fake_clock: FakeClock, fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    # An answer that is cut may have leased: its messages come again.
    fake_clock.meanwhile = lambda _: bench.service.store.messages.expire()
    bench.service.fault(**fault, operation="lease", times=3)
    with caplog.at_level(logging.INFO):
        event = await fire(trigger())

    assert event["status"] == "leased"
    assert fake_clock.slept == [5, 10, 20]
    assert [each.split(";")[0] for each in lines(caplog)] == [
        "Inbox orders is unreachable",
        "Inbox orders is reachable again",
    ]


async def test_a_fault_that_passes_is_survived_from_the_first_request_on(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="list_inboxes", status=503, times=2)
    with caplog.at_level(logging.WARNING):
        event = await fire(trigger())

    assert event["status"] == "leased"
    assert fake_clock.slept == [5, 10]
    assert len([each for each in lines(caplog) if "unreachable" in each]) == 1


async def test_another_series_of_faults_is_logged_again(
    bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        bench.service.fault("status", operation="lease", status=503)

    fake_clock.then(fail, nothing, fail, nothing, lambda: bench.put("a"))
    await fire(trigger())

    assert len([each for each in lines(caplog) if "unreachable" in each]) == 2


async def test_a_rate_limit_is_waited_out(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put("a")
    bench.service.fault("status", operation="lease", status=429, headers={"Retry-After": "0"}, times=6)

    assert (await fire(trigger()))["status"] == "leased"
