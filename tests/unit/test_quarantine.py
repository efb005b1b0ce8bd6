"""Quarantined messages raise an alarm once each, at little cost, and its own faults fail nothing else."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from airflow_provider_workflow import quarantine
from airflow_provider_workflow.client.errors import InboxPausedError
from airflow_provider_workflow.dispatch import Drained
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.hooks import user_tokens
from tests.unit.counted import Counted, counted
from tests.unit.triggers.loops import trigger
from tests.unit.workbench import INBOX, FakeTime, Workbench

__all__ = ["counted"]

WHERE = {"inbox": INBOX, "conn_id": "workflow_default"}


class Variables:
    """
    Airflow's Variables.

    :param fault: raised instead of reading or writing.
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.calls: list[str] = []
        self.fault: Exception | None = None

    def read(self, name: str) -> str | None:
        self.calls.append("read")
        if self.fault is not None:
            raise self.fault
        return self.values.get(name)

    def write(self, name: str, value: str, description: str) -> None:
        self.calls.append("write")
        if self.fault is not None:
            raise self.fault
        self.values[name] = value


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> Variables:
    fake = Variables()
    monkeypatch.setattr(user_tokens, "read_variable", fake.read)
    monkeypatch.setattr(user_tokens, "write_variable", fake.write)
    another_process()
    return fake


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake = FakeTime()
    monkeypatch.setattr(quarantine, "time", fake)
    return fake


def another_process() -> None:
    quarantine._reported.clear()
    quarantine._looked.clear()


def crash(bench: Workbench, clock: ManualClock, *ids: str) -> None:
    """Let messages come, and everybody who leases them die."""
    bench.put(*ids)
    for _ in range(5):
        bench.service.store.leases.lease(bench.inbox_id, 60, 100)
        clock.advance(61)
    assert bench.service.summary(INBOX)["counts"]["quarantined"] >= len(ids)


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]


def test_a_message_that_crashes_alone_brought_into_quarantine_raises_an_alarm(
    bench: Workbench, clock: ManualClock, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    crash(bench, clock, "a", "b")
    assert bench.dispatcher().drain() is Drained.EMPTY

    assert alarms(caplog) == [
        f"Inbox orders: message {each} is in quarantine; it is handed out no more and starts no run"
        for each in "ab"
    ]
    assert counted.totals == {"quarantined": 2}
    assert counted.tags == [WHERE]


def test_the_alarm_is_raised_once_for_each_message_by_all_processes(
    bench: Workbench, clock: ManualClock, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    crash(bench, clock, "a")
    bench.dispatcher().drain()
    crash(bench, clock, "b")
    for _ in range(3):
        another_process()
        bench.dispatcher().drain()

    assert len(alarms(caplog)) == 2
    assert counted.totals == {"quarantined": 2}


def test_where_no_variable_can_be_had_it_is_raised_once_in_a_process(
    bench: Workbench,
    clock: ManualClock,
    time: FakeTime,
    variables: Variables,
    caplog: pytest.LogCaptureFixture,
) -> None:
    variables.fault = RuntimeError("no API server")
    crash(bench, clock, "a")
    for _ in range(3):
        bench.dispatcher().drain()
        time.now += 1000
    assert len(alarms(caplog)) == 1
    another_process()
    bench.dispatcher().drain()

    assert len(alarms(caplog)) == 2


@pytest.mark.parametrize("text", ["no json", '{"a": 1}', "5", "null", "[1, null]"])
def test_a_variable_that_was_changed_by_hand_is_written_anew(
    text: str,
    bench: Workbench,
    clock: ManualClock,
    variables: Variables,
    caplog: pytest.LogCaptureFixture,
) -> None:
    variables.values["workflow_quarantine__workflow_default__orders"] = text
    crash(bench, clock, "a")
    bench.dispatcher().drain()
    another_process()
    bench.dispatcher().drain()

    assert len(alarms(caplog)) == 1


def test_without_quarantined_messages_it_costs_one_request_and_no_variable(
    bench: Workbench, variables: Variables, time: FakeTime
) -> None:
    bench.put("a", "b")
    for _ in range(5):
        bench.dispatcher().drain()

    assert bench.service.count("list_messages") == 1
    assert variables.calls == []


def test_with_quarantined_messages_it_reads_the_variable_once_and_writes_it_for_new_ones(
    bench: Workbench, clock: ManualClock, time: FakeTime, variables: Variables
) -> None:
    crash(bench, clock, "a")
    for _ in range(3):
        bench.dispatcher().drain()
        time.now += 601
    assert variables.calls == ["read", "write"]
    another_process()
    bench.dispatcher().drain()

    assert variables.calls == ["read", "write", "read"]
    assert bench.service.count("list_messages") == 4


def test_a_process_looks_again_after_ten_minutes(bench: Workbench, time: FakeTime) -> None:
    for seconds in (0, 300, 299, 2):
        time.now += seconds
        bench.dispatcher().drain()

    assert bench.service.count("list_messages") == 2


def test_looking_can_be_switched_off(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__WORKFLOW__QUARANTINE_CHECK_SECONDS", "0")
    bench.dispatcher().drain()

    assert bench.service.count("list_messages") == 0


def test_a_look_ends_after_five_pages(bench: Workbench) -> None:
    bench.service.store.configure(page_size=2)
    bench.put(*map(str, range(20)))
    bench.service.store.leases.lease(bench.inbox_id, 60, 100)
    bench.dispatcher().drain()

    assert bench.service.count("list_messages") == 5


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 503},
        {"kind": "status", "status": 429, "headers": {"Retry-After": "50"}},
        {"kind": "status", "status": 404},
        {"kind": "drop"},
        {"kind": "not_json"},
    ],
    ids=lambda fault: str(fault.get("status", fault["kind"])),
)
def test_a_look_that_fails_is_made_once_and_fails_nothing(
    fault: dict[str, Any], bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault(**fault, operation="list_messages", times=None)
    with caplog.at_level(logging.INFO):
        assert bench.dispatcher().drain() is Drained.EMPTY

    assert bench.supervisor.started == ["a"]
    assert bench.service.count("list_messages") == 1
    assert "whether messages are in quarantine is not known" in caplog.text


def test_a_paused_and_drained_inbox_is_looked_at_too(
    bench: Workbench, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    crash(bench, clock, "a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")
    with pytest.raises(InboxPausedError):
        bench.dispatcher().drain()

    assert len(alarms(caplog)) == 1


async def test_a_trigger_that_waits_raises_the_alarm_for_what_nobody_else_will_see(
    bench: Workbench, clock: ManualClock, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(crash, bench, clock, "a")
    waiting = trigger(poll_interval=0.01, max_poll_interval=0.01)
    running = asyncio.ensure_future(anext(waiting.run()))
    await asyncio.to_thread(until_there_are_alarms, caplog)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert len(alarms(caplog)) == 1
    assert counted.totals == {"quarantined": 1}
    assert bench.service.count("list_messages") == 1


def until_there_are_alarms(caplog: pytest.LogCaptureFixture) -> None:
    import time

    end = time.monotonic() + 10
    while not alarms(caplog) and time.monotonic() < end:
        time.sleep(0.01)


async def test_a_page_at_hand_is_reported_beside_the_loop(
    counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    page = [
        {"id": "a", "status": "quarantined"},
        {"id": "b", "status": "available"},
        {"id": None, "status": "quarantined"},
        {"status": "quarantined"},
        {},
    ]
    assert quarantine.report(page, **WHERE) == ["a"]
    assert quarantine.report(page, **WHERE) == []
    await asyncio.gather(*quarantine._alarms)

    assert len(alarms(caplog)) == 1
    assert counted.totals == {"quarantined": 1}


@pytest.mark.parametrize("hostile", ["my orders/é", "x" * 300, "\ud800", "a\nb"])
def test_hostile_names_and_ids_make_one_plain_line_and_a_name_that_airflow_takes(
    hostile: str, variables: Variables, caplog: pytest.LogCaptureFixture
) -> None:
    quarantine.report([{"id": hostile, "status": "quarantined"}], inbox=hostile, conn_id="c")
    [line], [name] = alarms(caplog), variables.values

    assert line.isprintable()
    assert name.startswith("workflow_quarantine__")
    assert len(name) <= 250
    assert name.isascii()
    assert "/" not in name


def test_neither_the_process_nor_the_variable_remembers_without_end(
    monkeypatch: pytest.MonkeyPatch, variables: Variables
) -> None:
    monkeypatch.setattr(quarantine, "MOST_REMEMBERED", 10)
    messages = [{"id": str(number), "status": "quarantined"} for number in range(5000)]
    quarantine.report(messages, **WHERE)

    assert len(quarantine._reported) == 10
    [kept] = variables.values.values()
    assert len(kept) < 48_000
