"""Quarantined messages raise an alarm once each, at little cost, and its own faults fail nothing else."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.dispatch.results import Drained
from airflow_provider_workflow.emulator.clock import ManualClock
from tests.unit.alarms import WHERE, alarms, another_process, crash
from tests.unit.counted import Counted, counted
from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import Workbench

__all__ = ["counted"]


def test_a_message_that_crashes_alone_brought_into_quarantine_raises_an_alarm(
    bench: Workbench, clock: ManualClock, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    crash(bench, clock, "a", "b")
    assert bench.dispatcher().drain() is Drained.EMPTY

    assert alarms(caplog) == [
        f"Inbox orders: message {each} is in quarantine; it is not delivered again and starts no run"
        for each in "ab"
    ]
    assert counted.totals == {"quarantined": 2}
    assert counted.tags == [WHERE]


def test_the_alarm_is_raised_once_for_each_message_in_a_process(
    bench: Workbench,
    clock: ManualClock,
    fake_clock: FakeClock,
    counted: Counted,
    caplog: pytest.LogCaptureFixture,
) -> None:
    crash(bench, clock, "a")
    for _ in range(3):
        bench.dispatcher().drain()
        fake_clock.advance(1000)
    assert len(alarms(caplog)) == 1
    another_process()
    bench.dispatcher().drain()

    assert len(alarms(caplog)) == 2
    assert counted.totals == {"quarantined": 2}


def test_a_page_at_hand_is_reported(counted: Counted, caplog: pytest.LogCaptureFixture) -> None:
    page = [
        {"id": "a", "status": "quarantined"},
        {"id": "b", "status": "available"},
        {"id": None, "status": "quarantined"},
        {"status": "quarantined"},
        {},
    ]
    for _ in range(2):
        quarantine.report(page, **WHERE)

    assert len(alarms(caplog)) == 1
    assert counted.totals == {"quarantined": 1}


def test_two_inboxes_with_the_same_message_ids_raise_an_alarm_each(caplog: pytest.LogCaptureFixture) -> None:
    for inbox in ("orders", "invoices"):
        quarantine.report([{"id": "a", "status": "quarantined"}], inbox=inbox, conn_id="c")

    assert [each.split(":")[0] for each in alarms(caplog)] == ["Inbox orders", "Inbox invoices"]


@pytest.mark.parametrize("hostile", ["my orders/é", "x" * 300, "\ud800"])
def test_hostile_names_and_ids_make_one_plain_line(hostile: str, caplog: pytest.LogCaptureFixture) -> None:
    quarantine.report([{"id": hostile, "status": "quarantined"}], inbox=hostile, conn_id="c")
    [line] = alarms(caplog)

    assert line.isprintable()
