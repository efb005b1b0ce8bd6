"""Back-pressure: a sensor without room waits without leasing, counts on, and ends when the inbox is empty."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from airflow.exceptions import AirflowRescheduleException

from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.sensors.tasks import POLL, Task
from tests.unit.workbench import Workbench

Release = Callable[[int, int], None]


def limit_runs(bench: Workbench) -> None:
    """Every run that was started stays unfinished, until ``finish``."""
    bench.ti.unfinished = lambda dag_id: len(bench.supervisor.runs)


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the sensor has logged about its waiting."""
    return [each.getMessage() for each in caplog.records if each.name.endswith("sensors.inbox")]


def finish(bench: Workbench) -> None:
    bench.ti.unfinished = lambda dag_id: 0


def test_without_room_the_trigger_leases_nothing_and_only_wakes_the_sensor(bench: Workbench) -> None:
    bench.ti.unfinished = lambda dag_id: 3
    bench.put("a")
    deferral = Task(bench, max_unfinished_runs=3).execute()

    assert deferral.trigger.hold_seconds == 5
    assert bench.service.count("lease") == 0


def test_a_hold_doubles_up_to_the_longest_interval_and_begins_anew(bench: Workbench) -> None:
    bench.ti.unfinished = lambda dag_id: 3
    task = Task(bench, max_unfinished_runs=3, poll_interval=5, max_poll_interval=30)
    deferral = task.execute()
    held = [deferral.trigger.hold_seconds]
    for _ in range(4):
        deferral = task.resume(deferral, POLL)
        held.append(deferral.trigger.hold_seconds)
    assert held == [5, 10, 20, 30, 30]

    finish(bench)
    deferral = task.resume(deferral, POLL)
    assert deferral.trigger.hold_seconds == 0
    bench.ti.unfinished = lambda dag_id: 3
    assert task.resume(deferral, POLL).trigger.hold_seconds == 5


def test_the_trigger_leases_one_message_and_the_worker_the_rest(bench: Workbench) -> None:
    bench.ti.unfinished = lambda dag_id: 3

    assert Task(bench, max_unfinished_runs=10).execute().trigger.lease_limit == 1
    assert Task(bench, lease_limit=20).execute().trigger.lease_limit == 1


def test_after_a_failed_try_the_trigger_leases_one_message_for_an_hour(bench: Workbench) -> None:
    bench.ti.try_number = 2

    assert Task(bench).execute().trigger.lease_seconds == 3600


def test_numbers_are_carried_over_a_wait_for_room(bench: Workbench) -> None:
    limit_runs(bench)
    bench.put(*"abc")
    task = Task(bench, max_unfinished_runs=2)
    deferral = task.execute()
    assert bench.supervisor.started == ["a", "b"]
    assert deferral.trigger.hold_seconds > 0

    finish(bench)
    assert task.resume(deferral, POLL)["started"] == {"count": 3, "ids": ["a", "b", "c"]}


def test_a_sensor_that_started_runs_ends_with_an_inbox_that_is_empty_by_now(bench: Workbench) -> None:
    limit_runs(bench)
    bench.put(*"ab")
    task = Task(bench, max_unfinished_runs=2)
    deferral = task.execute()

    # There is room again by the time that it is deferred, and no new message comes.
    finish(bench)
    assert deferral.trigger.hold_seconds > 0
    assert task.resume(deferral, POLL)["started"]["count"] == 2


def test_max_messages_holds_across_deferrals(bench: Workbench) -> None:
    limit_runs(bench)
    bench.put(*"abcdef")
    task = Task(bench, max_unfinished_runs=2, max_messages=3)
    deferral = task.execute()
    finish(bench)

    assert task.resume(deferral, POLL)["started"]["ids"] == ["a", "b", "c"]
    assert bench.states == {"d": "available", "e": "available", "f": "available"}


def test_poke_mode_counts_over_its_pokes(bench: Workbench, pauses: FakeClock) -> None:
    pauses.meanwhile = lambda _: finish(bench)
    limit_runs(bench)
    bench.put(*"ab")
    task = Task(bench, max_unfinished_runs=2, deferrable=False, poll_interval=7)

    assert task.execute()["started"] == {"count": 2, "ids": ["a", "b"]}
    assert pauses.slept == [7]


def test_poke_mode_pokes_until_there_are_messages(bench: Workbench, pauses: FakeClock) -> None:
    pauses.then(nothing, nothing, lambda: bench.put("a"))
    task = Task(bench, deferrable=False, poll_interval=7)

    assert task.execute()["started"]["ids"] == ["a"]
    assert pauses.slept == [7, 7, 7]
    bench.put("b")
    assert task.execute()["started"]["ids"] == ["b"]


def test_how_a_sensor_polls_is_logged_once_when_it_begins_to_wait(
    bench: Workbench, pauses: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    pauses.then(nothing, lambda: bench.put("a"))
    with caplog.at_level(logging.INFO):
        Task(bench, deferrable=False, poll_interval=7).execute()

    assert lines_of(caplog) == [
        f"Inbox orders at 127.0.0.1:{bench.service.port}: nothing to do yet; polling every 7 s"
    ]


def test_a_rescheduled_sensor_logs_how_it_polls_in_its_first_process_only(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for count in range(3):
            task = Task(bench, deferrable=False, mode="reschedule")
            task.context["task_reschedule_count"] = count
            with pytest.raises(AirflowRescheduleException):
                task.execute()

    assert len(lines_of(caplog)) == 1


def test_reschedule_mode_waits_for_a_first_message(bench: Workbench) -> None:
    task = Task(bench, deferrable=False, mode="reschedule")

    with pytest.raises(AirflowRescheduleException):
        task.execute()
    assert task.sensor.poke_interval == 6
    bench.put("a")
    assert task.execute()["started"]["ids"] == ["a"]


def test_reschedule_mode_ends_without_room_as_its_numbers_would_be_lost(bench: Workbench) -> None:
    limit_runs(bench)
    bench.put(*"abc")
    task = Task(bench, max_unfinished_runs=2, deferrable=False, mode="reschedule")

    assert task.execute()["started"]["ids"] == ["a", "b"]
    with pytest.raises(AirflowRescheduleException):
        task.execute()
