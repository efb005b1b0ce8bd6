"""What the sensor does about an inbox that is paused, missing, or failed to initialize."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, TaskDeferred

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.errors import WorkflowError
from tests.unit.counted import Counted
from tests.unit.fake_clock import FakeClock
from tests.unit.sensors.tasks import MODES, Task, done
from tests.unit.workbench import INBOX, Workbench


def paused(bench: Workbench) -> str:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")
    return "abandoned"


def deleted(bench: Workbench) -> str:
    bench.hook.delete_inbox(INBOX)
    return "does not exist"


def run_before_failed(bench: Workbench, error: str) -> None:
    """Let a task have failed just now in the run before, with this error of its source."""
    ended_at = datetime.fromtimestamp(clock.now(), UTC)
    bench.ti.previous = SimpleNamespace(run_id="before", end_date=ended_at)
    bench.ti.xcoms["before", "workflow_alarm", -1] = error


@pytest.mark.parametrize("status", [403, 409, 429, 503])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("pauses")
def test_the_body_of_an_error_stays_in_the_error(
    bench: Workbench, mode: str, status: int, counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in an XCom, a deferral, a run, a metric or a log; its text has its first reason only."""
    caplog.set_level(logging.DEBUG)
    body = {"errors": [{"code": "c", "detail": "d", "meta": {"sent": "what-was-sent"}}, {"detail": "sent"}]}
    bench.service.fault("status", operation="lease", status=status, json=body, times=None)
    outcomes: list[object] = []
    for try_number in (1, 2):
        bench.ti.try_number = try_number
        task = Task(bench, timeout=30, **MODES[mode])
        try:
            outcome = task.execute()
        except Exception as error:
            outcomes.append(error.args)
        else:
            assert isinstance(outcome, TaskDeferred)
            outcomes += [outcome.trigger.serialize(), outcome.kwargs]
    written = outcomes, bench.ti.xcoms, vars(task.store), bench.supervisor.runs, counted.told, caplog.text
    assert bench.service.count("lease") > 0
    assert "what-was-sent" not in str(written)


SOURCES = pytest.mark.parametrize("fault", [paused, deleted])


@SOURCES
@pytest.mark.parametrize("mode", ["poke", "deferrable"])
def test_a_source_that_must_be_corrected_fails_the_task_in_its_second_try(
    bench: Workbench, fault: Callable[[Workbench], str], mode: str
) -> None:
    text = fault(bench)
    with pytest.raises((AirflowException, WorkflowError), match=text) as failed:
        Task(bench, **MODES[mode]).execute()
    assert not isinstance(failed.value, AirflowFailException)

    bench.ti.try_number = 2
    with pytest.raises(AirflowFailException, match=text):
        Task(bench, **MODES[mode]).execute()


@SOURCES
def test_the_run_after_that_waits_for_six_hours(
    bench: Workbench, fake_clock: FakeClock, fault: Callable[[Workbench], str]
) -> None:
    text = fault(bench)
    bench.ti.try_number, bench.ti.run_id = 2, "before"
    with pytest.raises(AirflowFailException, match=text):
        Task(bench).execute()
    run_before_failed(bench, bench.ti.xcoms["before", "workflow_alarm", -1])
    bench.ti.run_id = "after"
    bench.service.fault("status", operation="list_inboxes", status=503, times=5)
    task = Task(bench)
    deferral = task.resume(task.execute(), {"status": "poll"})
    assert deferral.trigger.hold_seconds == 300

    fake_clock.advance(6 * 3600 - 1)
    deferral = task.resume(deferral, {"status": "poll"})
    fake_clock.advance(1)
    with pytest.raises(AirflowFailException, match=text):
        task.resume(deferral, {"status": "poll"})


@pytest.mark.parametrize("error", ["NotFoundError", ""])
def test_a_run_after_one_that_failed_otherwise_does_not_wait(bench: Workbench, error: str) -> None:
    paused(bench)
    run_before_failed(bench, error)
    bench.ti.try_number = 2

    with pytest.raises(AirflowFailException, match="abandoned"):
        Task(bench).execute()


def test_the_alarm_of_another_map_index_holds_none_back(bench: Workbench) -> None:
    paused(bench)
    run_before_failed(bench, "InboxNotActiveError")
    bench.ti.map_index, bench.ti.try_number = 1, 2

    with pytest.raises(AirflowFailException, match="abandoned"):
        Task(bench).execute()


def test_it_goes_on_when_the_source_is_corrected_and_the_next_run_does_not_wait(bench: Workbench) -> None:
    paused(bench)
    run_before_failed(bench, "InboxNotActiveError")
    task = Task(bench)
    deferral = task.execute()
    bench.service.store.inboxes.force(bench.inbox_id, "active")
    bench.put("a")

    assert done(task.resume(deferral, {"status": "poll"})) == ["a"]
    assert bench.ti.xcoms[bench.ti.run_id, "workflow_alarm", -1] == ""


@pytest.mark.parametrize(("reason", "on_paused"), [("user", "fail"), ("abandoned", "wait")])
def test_a_pause_by_a_user_or_where_asked_is_waited_out_and_the_reason_is_named(
    bench: Workbench, reason: str, on_paused: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", reason)
    bench.ti.try_number = 2
    trigger = Task(bench, on_paused=on_paused).execute().trigger

    assert (trigger.hold_seconds, trigger.on_paused) == (0, on_paused)
    assert f"Inbox orders is paused: {reason}" in caplog.text


def test_a_paused_inbox_that_still_held_messages_is_a_success(bench: Workbench) -> None:
    bench.put("a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")

    assert Task(bench).execute()["started"]["ids"] == ["a"]


def test_an_inbox_that_initializes_is_waited_for(bench: Workbench) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "initializing")

    assert Task(bench).execute().trigger.hold_seconds == 0


@pytest.mark.parametrize("mode", MODES)
def test_without_capacity_the_source_is_checked(bench: Workbench, mode: str) -> None:
    paused(bench)
    bench.ti.unfinished = lambda dag_id: 50
    bench.ti.try_number = 2

    with pytest.raises(AirflowFailException, match="abandoned"):
        Task(bench, max_unfinished_runs=50, timeout=10, **MODES[mode]).execute()


def test_after_an_alarm_a_sensor_that_is_rescheduled_polls_as_seldom_as_a_deferred_one(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = json.loads(bench.service.connection_json())
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps({**connection, "password": ""}))
    run_before_failed(bench, "ConfigurationError")
    task = Task(bench, **MODES["reschedule"])

    with pytest.raises(AirflowRescheduleException):
        task.execute()
    assert task.sensor.poke_interval == 300


def test_a_short_timeout_does_not_replace_the_alarm(bench: Workbench, fake_clock: FakeClock) -> None:
    paused(bench)
    run_before_failed(bench, "InboxNotActiveError")
    task = Task(bench, timeout=400)
    deferral = task.execute()
    fake_clock.advance(300)
    deferral = task.resume(deferral, {"status": "poll"})
    assert deferral.trigger.hold_seconds == 100 < deferral.timeout.total_seconds()

    fake_clock.advance(100)
    with pytest.raises(AirflowFailException, match="abandoned"):
        task.resume(deferral, {"status": "poll"})


@pytest.mark.parametrize(("mode", "timeout"), [("poke", 7200), ("reschedule", 0)])
@pytest.mark.usefixtures("pauses")
def test_nor_does_it_in_the_other_modes(bench: Workbench, mode: str, timeout: float) -> None:
    paused(bench)
    run_before_failed(bench, "InboxNotActiveError")

    with pytest.raises(AirflowFailException, match="abandoned"):
        Task(bench, timeout=timeout, **MODES[mode]).execute()


@pytest.mark.parametrize("error", ["InboxNotActiveError", "AuthenticationError"])
def test_after_an_alarm_a_sensor_that_pokes_has_its_interval_and_its_connection_again(
    bench: Workbench, pauses: FakeClock, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def correct() -> None:
        bench.service.store.inboxes.force(bench.inbox_id, "active")
        monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", bench.service.connection_json())

    paused(bench)
    if error == "AuthenticationError":
        bench.service.store.configure(client_secret="regenerated")
        bench.service.store.tokens.expire()
    run_before_failed(bench, error)
    pauses.at(pauses.start + 600, correct)
    pauses.at(pauses.start + 7201, lambda: bench.put("a"))

    assert done(Task(bench, **MODES["poke"]).execute()) == ["a"]
    assert bench.ti.xcoms[bench.ti.run_id, "workflow_alarm", -1] == ""
    assert pauses.elapsed < 7210


@pytest.mark.parametrize("status", ["active", "paused"])
@pytest.mark.parametrize("reason", ["abandoned", "user"])
def test_another_pause_in_the_run_that_saw_the_first_one_end_fails_at_once(
    bench: Workbench, reason: str, status: str
) -> None:
    run_before_failed(bench, "InboxNotActiveError")
    task, force = Task(bench), bench.service.store.inboxes.force
    force(bench.inbox_id, status, "abandoned")
    deferral = task.execute()
    force(bench.inbox_id, "active")
    deferral = task.resume(deferral, {"status": "poll"})
    force(bench.inbox_id, "paused", reason)

    if reason == "user":
        assert task.resume(deferral, {"status": "poll"}).trigger.hold_seconds == 0
        return
    with pytest.raises(AirflowFailException, match=reason):
        task.resume(deferral, {"status": "poll"})


def test_messages_of_an_inbox_that_stays_paused_do_not_correct_it(bench: Workbench) -> None:
    bench.put("a")
    bench.ti.unfinished = lambda dag_id: 50
    paused(bench)
    run_before_failed(bench, "InboxNotActiveError")
    task = Task(bench, max_unfinished_runs=50)
    deferral = task.execute()
    bench.ti.unfinished = lambda dag_id: 0

    assert done(task.resume(deferral, {"status": "poll"})) == ["a"]
    assert bench.ti.xcoms.get((bench.ti.run_id, "workflow_alarm", -1)) != ""
