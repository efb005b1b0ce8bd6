"""Quarantined messages: when an inbox is checked for them, and how often they are reported."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.quarantine import check_quarantine_in_loop, report_quarantined
from airflow_provider_workflow.dispatch.results import DrainEnd
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.pytest_plugin import reset as another_process
from airflow_provider_workflow.source import SourceError
from tests.unit.fake_clock import FakeClock
from tests.unit.fake_stats import FakeStats
from tests.unit.triggers.test_inbox import fire, trigger
from tests.unit.workbench import INBOX, Workbench

WHERE = {"inbox": INBOX, "conn_id": "workflow_default"}


def crash(bench: Workbench, clock: ManualClock, *ids: str) -> None:
    """Let messages come, and everybody who leases them die."""
    bench.put(*ids)
    for _ in range(5):
        bench.service.store.messages.lease(bench.inbox_id, 60, 100)
        clock.advance(61)
    assert bench.service.summary(INBOX)["counts"]["quarantined"] >= len(ids)


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


def test_messages_that_crashes_brought_into_quarantine_raise_an_alarm_once_in_a_process(
    bench: Workbench,
    clock: ManualClock,
    fake_clock: FakeClock,
    fake_stats: FakeStats,
    caplog: pytest.LogCaptureFixture,
) -> None:
    crash(bench, clock, "a", "b")
    for _ in range(3):
        assert bench.dispatcher().drain() is DrainEnd.EMPTY
        fake_clock.advance(1000)

    assert alarms(caplog) == [
        f"Inbox orders: message {message_id} is in quarantine; it is not delivered again and starts no run"
        for message_id in "ab"
    ]
    assert fake_stats.totals == {"quarantined": 2}
    assert fake_stats.tags == [WHERE]
    another_process()
    bench.dispatcher().drain()
    assert len(alarms(caplog)) == 4


def test_a_page_at_hand_is_reported_once_for_each_inbox(
    fake_stats: FakeStats, caplog: pytest.LogCaptureFixture
) -> None:
    page = [
        {"id": "a", "status": "quarantined"},
        {"id": "b", "status": "available"},
        {"id": None, "status": "quarantined"},
        {"status": "quarantined"},
        {},
    ]
    for inbox in ("orders", "orders", "invoices"):
        report_quarantined(page, inbox=inbox, conn_id="c")

    assert [text.split(":")[0] for text in alarms(caplog)] == ["Inbox orders", "Inbox invoices"]
    assert fake_stats.totals == {"quarantined": 2}


def test_hostile_names_and_ids_make_one_plain_line(caplog: pytest.LogCaptureFixture) -> None:
    page = [{"id": "b\n\ud800", "status": "quarantined"}]
    report_quarantined(page, inbox="a\n\ud800", conn_id="c")
    [line] = alarms(caplog)

    assert line.isprintable()


def test_a_process_looks_again_after_ten_minutes(bench: Workbench, fake_clock: FakeClock) -> None:
    for seconds in (0, 300, 299, 2):
        fake_clock.advance(seconds)
        bench.dispatcher().drain()

    assert bench.service.count("list_messages") == 2


@pytest.mark.parametrize("interval", ["0", "10m"])
def test_looking_can_be_switched_off_and_a_wrong_interval_fails_nothing(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, interval: str
) -> None:
    monkeypatch.setenv("AIRFLOW__WORKFLOW__QUARANTINE_CHECK_SECONDS", interval)
    bench.dispatcher().drain()

    assert bench.service.count("list_messages") == 0


def test_a_look_ends_after_five_pages(bench: Workbench) -> None:
    bench.service.store.configure(page_size=2)
    bench.put(*map(str, range(20)))
    bench.service.store.messages.lease(bench.inbox_id, 60, 100)
    bench.dispatcher().drain()

    assert bench.service.count("list_messages") == 5


@pytest.mark.parametrize(
    "fault",
    [{"kind": "status", "status": 429, "headers": {"Retry-After": "50"}}, {"kind": "drop"}],
    ids=["429", "drop"],
)
def test_a_look_that_fails_is_made_once_and_fails_nothing(
    fault: dict[str, Any], bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault(**fault, operation="list_messages", times=None)
    with caplog.at_level(logging.INFO):
        assert bench.dispatcher().drain() is DrainEnd.EMPTY

    assert bench.supervisor.started == ["a"]
    assert bench.service.count("list_messages") == 1
    assert "Inbox orders: cannot find out whether messages are in quarantine" in caplog.text


def test_a_paused_and_drained_inbox_is_looked_at_too(
    bench: Workbench, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    crash(bench, clock, "a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")
    with pytest.raises(SourceError):
        bench.dispatcher().drain()

    assert len(alarms(caplog)) == 1


async def test_a_trigger_that_waits_raises_the_alarm_for_what_nobody_else_will_see(
    bench: Workbench, clock: ManualClock, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    crash(bench, clock, "a")
    fake_clock.then(lambda: bench.put("b"))
    await fire(trigger())

    assert len(alarms(caplog)) == 1
    assert bench.service.count("list_messages") == 1


@pytest.mark.parametrize("turns", range(6))
async def test_a_trigger_that_is_ended_while_its_check_is_answered_ends(turns: int, bench: Workbench) -> None:
    answer_event = asyncio.Event()

    class Client:
        settings = bench.hook.settings

        async def run(self, listing: Any) -> tuple[list[Any], None]:
            listing.close()
            await answer_event.wait()
            return [{"id": "a", "status": "available"}] * 300, None

    async def wait() -> None:
        await check_quarantine_in_loop(Client(), INBOX)  # type: ignore[arg-type]
        await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    answer_event.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=10)
    assert task.cancelled()


def test_a_process_remembers_a_limited_number_of_reported_messages(
    fake_stats: FakeStats, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    page = [{"id": str(number), "status": "quarantined"} for number in range(100_100)]
    report_quarantined(page, **WHERE)
    report_quarantined(page[-1000:], **WHERE)
    assert fake_stats.totals == {"quarantined": 100_100}, "the last ones are remembered"

    report_quarantined(page[:100], **WHERE)
    assert fake_stats.totals == {"quarantined": 100_200}, "the first ones are forgotten"
