"""What the sensor does about an inbox that is paused, missing, or failed to initialize."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred

from airflow_provider_workflow import clock
from airflow_provider_workflow.source import Alarm
from tests.unit.fake_clock import FakeClock
from tests.unit.fake_stats import FakeStats
from tests.unit.sensors.tasks import MODES, Task, message_ids
from tests.unit.workbench import INBOX, Workbench

HOUR = 3600.0


def pause(bench: Workbench) -> str:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")
    return "abandoned"


def delete(bench: Workbench) -> str:
    bench.hook.delete_inbox(INBOX)
    return "does not exist"


def fail(bench: Workbench) -> str:
    bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure", "subscribe_failed")
    return "failed to initialize"


@pytest.mark.parametrize("status", [403, 409, 429, 503])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("pauses")
def test_the_body_of_an_error_stays_in_the_error(
    bench: Workbench, mode: str, status: int, fake_stats: FakeStats, caplog: pytest.LogCaptureFixture
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
    texts = outcomes, bench.ti.xcoms, vars(task.store), bench.supervisor.runs, fake_stats.calls, caplog.text
    assert bench.service.count("lease") > 0
    assert "what-was-sent" not in str(texts)


def run_before_failed(bench: Workbench, seconds_ago: float = 0, ended_ago: float | None = None) -> None:
    """Let the run before have failed for its source, and a run after it have ended."""
    at = clock.now() - seconds_ago
    alarm = Alarm(kind="paused", began_at=at - 60, problem_at=at, alarmed_at=at)
    bench.ti.xcoms["before", "workflow_alarm", -1] = alarm.record()
    ended_at = datetime.fromtimestamp(clock.now() - (seconds_ago if ended_ago is None else ended_ago), UTC)
    bench.ti.previous = SimpleNamespace(run_id="before", state="failed", end_date=ended_at)


def event_of(deferral: Any) -> Any:
    """What the trigger of a deferral fires."""

    async def first() -> Any:
        async with aclosing(deferral.trigger.run()) as events:
            return (await anext(events)).payload

    return asyncio.run(first())


def task_of(bench: Workbench, **arguments: Any) -> Task:
    return Task(bench, **{"wake_on_events": False, "timeout": 14 * 24 * HOUR, **arguments})


SOURCES = pytest.mark.parametrize("fault", [pause, delete, fail])


@SOURCES
@pytest.mark.parametrize("mode", MODES)
def test_a_problem_that_is_seen_for_a_minute_fails_the_task_without_a_retry(
    bench: Workbench, pauses: FakeClock, fault: Callable[[Workbench], str], mode: str
) -> None:
    text = fault(bench)
    task = task_of(bench, **MODES[mode])
    with pytest.raises(AirflowFailException, match=rf"{text}.*\(since 1970-01-12T13:4"):
        task.resume(deferral := task.execute(), event_of(deferral))

    assert 60 <= pauses.elapsed < 180


@pytest.mark.parametrize("mode", MODES)
def test_a_problem_that_passes_within_a_minute_fails_nothing(
    bench: Workbench, pauses: FakeClock, mode: str
) -> None:
    pause(bench)
    pauses.at(pauses.start + 10, lambda: bench.service.store.inboxes.force(bench.inbox_id, "active"))
    pauses.at(pauses.start + 400, lambda: bench.put("a"))
    task = task_of(bench, **MODES[mode])

    if mode == "reschedule":
        with pytest.raises(AirflowRescheduleException):
            task.execute()
        assert pauses.elapsed < 240, "it waits for a second reading in its process, for three minutes at most"
        return
    result = task.execute()
    assert message_ids(result if mode == "poke" else task.resume(result, event_of(result))) == ["a"]


def test_a_trouble_of_a_poking_sensor_is_over_after_an_hour_of_a_pause_by_a_user(
    bench: Workbench, pauses: FakeClock
) -> None:
    def reject_once() -> None:
        bench.service.fault("status", operation="lease", status=403, times=1)

    def arrive() -> None:
        bench.service.store.inboxes.force(bench.inbox_id, "active")
        bench.put("a")

    reject_once()
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")
    pauses.at(pauses.start + 2 * HOUR, reject_once)
    pauses.at(pauses.start + 2.1 * HOUR, arrive)

    assert message_ids(task_of(bench, deferrable=False, poll_interval=30).execute()) == ["a"]


@SOURCES
def test_the_run_after_that_fails_again_after_six_hours_and_not_before(
    bench: Workbench, fake_clock: FakeClock, fault: Callable[[Workbench], str]
) -> None:
    text = fault(bench)
    run_before_failed(bench, 5.5 * HOUR)
    task = task_of(bench)
    event = event_of(deferral := task.execute())

    assert 0.5 * HOUR <= fake_clock.elapsed < 0.5 * HOUR + 70
    with pytest.raises(AirflowFailException, match=text):
        task.resume(deferral, event)


@pytest.mark.parametrize(
    ("seconds_ago", "ended_ago", "waits"),
    [
        (5.5 * HOUR, 5.5 * HOUR, True),
        (5.5 * HOUR, 5 * HOUR, True),
        (5.5 * HOUR, 1.5 * HOUR, False),
        (7 * HOUR, None, False),
    ],
)
def test_after_an_hour_without_a_problem_the_next_one_is_an_alarm_again(
    bench: Workbench, fake_clock: FakeClock, seconds_ago: float, ended_ago: float | None, waits: bool
) -> None:
    run_before_failed(bench, seconds_ago, ended_ago)
    pause(bench)
    event_of(task_of(bench).execute())

    assert (fake_clock.elapsed >= HOUR / 2) is waits


def test_a_run_that_found_its_inbox_sound_for_an_hour_raises_the_alarm_again(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    run_before_failed(bench)
    fake_clock.at(fake_clock.start + 1.1 * HOUR, lambda: pause(bench))
    task = task_of(bench)
    event = event_of(deferral := task.execute())

    assert fake_clock.elapsed < 1.1 * HOUR + 300
    with pytest.raises(AirflowFailException, match="abandoned"):
        task.resume(deferral, event)


def test_a_problem_of_the_run_before_makes_the_next_one_an_alarm(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    """A listener of a busy inbox has short runs, none of which sees a problem for a minute."""
    bench.put("a")
    pause(bench)
    assert message_ids(Task(bench).execute()) == ["a"]
    bench.ti.run_id = "after"
    fake_clock.advance(90)

    with pytest.raises(AirflowFailException, match="abandoned"):
        Task(bench).execute()


def test_a_listener_whose_inbox_is_sound_stores_and_reads_nothing_of_alarms(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(**_: Any) -> None:
        raise AssertionError("it read the alarm of an earlier run")

    monkeypatch.setattr(bench.ti, "xcom_pull", unexpected, raising=False)
    bench.put("a")

    assert message_ids(Task(bench).execute()) == ["a"]
    assert bench.ti.xcoms == {}


def test_an_alarm_is_raised_if_airflow_does_not_tell_of_the_one_before(
    bench: Workbench, pauses: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**_: Any) -> None:
        raise ConnectionError

    monkeypatch.setattr(bench.ti, "xcom_pull", away, raising=False)
    pause(bench)
    run_before_failed(bench)

    with pytest.raises(AirflowFailException, match="abandoned"):
        task_of(bench, **MODES["poke"]).execute()


@pytest.mark.parametrize("stored", ["InboxNotActiveError", "", {"began_at": "x"}, {"alarmed_at": 1.0}, None])
def test_a_record_that_cannot_be_read_holds_no_alarm_back(
    bench: Workbench, pauses: FakeClock, stored: Any
) -> None:
    """An earlier version stored the name of an error."""
    pause(bench)
    bench.ti.xcoms["before", "workflow_alarm", -1] = stored

    with pytest.raises(AirflowFailException, match="abandoned"):
        task_of(bench, **MODES["poke"]).execute()
    assert pauses.elapsed < 180


def test_the_alarm_of_another_map_index_holds_none_back(bench: Workbench, pauses: FakeClock) -> None:
    pause(bench)
    run_before_failed(bench)
    bench.ti.map_index = 1

    with pytest.raises(AirflowFailException, match="abandoned"):
        task_of(bench, **MODES["poke"]).execute()
    assert pauses.elapsed < 180


@pytest.mark.parametrize("mode", ["poke", "deferrable"])
def test_while_a_problem_lasts_a_message_is_worked_on_within_a_minute(
    bench: Workbench, pauses: FakeClock, mode: str
) -> None:
    delete(bench)
    run_before_failed(bench)

    def create() -> None:
        bench.inbox_id = bench.service.open_inbox(INBOX)
        bench.put("a")

    pauses.at(pauses.start + 900, create)
    task = task_of(bench, **MODES[mode])
    result = task.execute()

    assert message_ids(result if mode == "poke" else task.resume(result, event_of(result))) == ["a"]
    assert pauses.elapsed <= 960


@pytest.mark.parametrize("reason", ["abandoned", "upstream_failures since 5 min"])
def test_another_reason_or_kind_is_no_other_alarm(
    bench: Workbench, fake_clock: FakeClock, reason: str
) -> None:
    run_before_failed(bench, 5.5 * HOUR)
    bench.service.store.inboxes.force(bench.inbox_id, "paused", reason)
    fake_clock.at(fake_clock.start + 600, lambda: fail(bench))
    fake_clock.at(fake_clock.start + 1200, lambda: bench.service.store.inboxes.delete(bench.inbox_id))
    event = event_of(task_of(bench).execute())

    assert event["problem"]["kind"] == "missing"
    assert fake_clock.elapsed >= HOUR / 2


@pytest.mark.parametrize(("reason", "on_paused"), [("user", "fail"), ("abandoned", "wait")])
def test_a_pause_by_a_user_or_where_asked_is_waited_out_and_the_reason_is_named(
    bench: Workbench, reason: str, on_paused: str, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", reason)

    def resume() -> None:
        # An inbox that is paused gets no messages.
        bench.service.store.inboxes.force(bench.inbox_id, "active")
        bench.put("a")

    fake_clock.at(fake_clock.start + 600, resume)
    task = task_of(bench, on_paused=on_paused)
    deferral = task.execute()

    assert f"Inbox 'orders' is paused ({reason}), and new events are dropped" in caplog.text
    assert message_ids(task.resume(deferral, event_of(deferral))) == ["a"]


def test_a_sensor_that_pokes_names_each_reason_of_a_pause_once(
    bench: Workbench, pauses: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    inboxes = bench.service.store.inboxes
    for second, reason in ((0, "user"), (100, "abandoned")):
        pauses.at(
            pauses.start + second, lambda reason=reason: inboxes.force(bench.inbox_id, "paused", reason)
        )
    pauses.at(pauses.start + 200, lambda: inboxes.force(bench.inbox_id, "active"))
    pauses.at(pauses.start + 200, lambda: bench.put("a"))
    task_of(bench, on_paused="wait", **MODES["poke"]).execute()

    texts = [record.getMessage() for record in caplog.records if record.name.endswith("sensors.inbox")]
    assert [text.partition(",")[0] for text in texts if "is paused" in text] == [
        "Inbox 'orders' is paused (user)",
        "Inbox 'orders' is paused (abandoned)",
    ]


@pytest.mark.parametrize("status", ["paused", "initializing"])
def test_an_inbox_that_holds_messages_or_initializes_is_no_problem(bench: Workbench, status: str) -> None:
    if status == "paused":
        bench.put("a")
        bench.service.store.inboxes.force(bench.inbox_id, status, "user")
        assert Task(bench).execute()["started"]["ids"] == ["a"]
    else:
        bench.service.store.inboxes.force(bench.inbox_id, status)
        assert Task(bench).execute().trigger.hold_seconds == 0
    assert bench.ti.xcoms == {}


@pytest.mark.parametrize("mode", MODES)
def test_without_capacity_the_source_is_checked(bench: Workbench, pauses: FakeClock, mode: str) -> None:
    pause(bench)
    bench.ti.unfinished = lambda dag_id: 50
    task = task_of(bench, max_unfinished_runs=50, **MODES[mode])

    def wait() -> None:
        deferral = task.execute()
        for _ in range(5):
            deferral = task.resume(deferral, event_of(deferral))

    with pytest.raises(AirflowFailException, match="abandoned"):
        wait()
    assert bench.lease_sizes == []


@pytest.mark.parametrize("mode", MODES)
def test_a_short_timeout_does_not_replace_the_alarm(bench: Workbench, pauses: FakeClock, mode: str) -> None:
    pause(bench)
    run_before_failed(bench)
    task = task_of(bench, timeout=0 if mode == "reschedule" else 400, **MODES[mode])

    def wait() -> None:
        deferral = task.execute()
        pauses.advance(400)
        task.resume(deferral, {"status": "poll"})

    with pytest.raises(AirflowFailException, match="abandoned"):
        wait()

    assert bench.ti.xcoms[bench.ti.run_id, "workflow_alarm", -1]["alarmed_at"] == pauses.now()


@pytest.mark.parametrize("is_rejected", [False, True])
def test_after_an_alarm_a_sensor_that_pokes_has_its_interval_and_its_connection_again(
    bench: Workbench, pauses: FakeClock, is_rejected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def correct() -> None:
        bench.service.store.inboxes.force(bench.inbox_id, "active")
        monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", bench.service.connection_json())

    pause(bench)
    if is_rejected:
        bench.service.store.configure(client_secret="regenerated")
        bench.service.store.tokens.expire()
    run_before_failed(bench)
    pauses.at(pauses.start + 600, correct)
    pauses.at(pauses.start + 901, lambda: bench.put("a"))

    assert message_ids(task_of(bench, **MODES["poke"]).execute()) == ["a"]
    assert pauses.elapsed < 910


def test_a_problem_that_the_trigger_found_fails_the_task_though_the_source_is_sound_now(
    bench: Workbench, pauses: FakeClock
) -> None:
    """The messages are worked on first."""
    task = task_of(bench)
    deferral = task.execute()
    pause(bench)
    event = event_of(deferral)
    bench.service.store.inboxes.force(bench.inbox_id, "active")
    bench.put("a")

    with pytest.raises(AirflowFailException, match="abandoned"):
        task.resume(deferral, event)
    assert bench.supervisor.started == ["a"]
    assert bench.states == {}


@pytest.mark.parametrize(
    "acknowledge", [pytest.param("auto", marks=pytest.mark.since(3, 3, "the task state store")), "manual"]
)
def test_messages_that_the_sensor_returns_come_before_an_alarm(
    bench: Workbench, pauses: FakeClock, acknowledge: str
) -> None:
    """A failed task returns none, and they would be acknowledged already."""
    task = task_of(bench, trigger_dag_id=None, acknowledge=acknowledge)
    deferral = task.execute()
    pause(bench)
    event = event_of(deferral)
    bench.service.store.inboxes.force(bench.inbox_id, "active")
    bench.put("a")
    value = task.resume(deferral, event)

    assert [message["id"] for message in (value["messages"] if acknowledge == "manual" else value)] == ["a"]
    bench.ti.run_id = "after"
    pause(bench)
    with pytest.raises(AirflowFailException, match="abandoned"):
        task_of(bench, trigger_dag_id=None, acknowledge=acknowledge).execute()


def test_a_trigger_goes_on_after_an_error_of_its_source_and_reads_the_connection_again(
    bench: Workbench, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = json.loads(bench.service.connection_json())
    task = task_of(bench)
    deferral = task.execute()
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps({**connection, "password": ""}))
    right = bench.service.connection_json()
    fake_clock.at(fake_clock.start + 40, lambda: monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", right))
    bench.put("a")

    assert message_ids(task.resume(deferral, event_of(deferral))) == ["a"]


def test_messages_of_an_inbox_that_stays_paused_do_not_end_its_alarm(bench: Workbench) -> None:
    bench.put("a")
    bench.ti.unfinished = lambda dag_id: 50
    pause(bench)
    run_before_failed(bench, seconds_ago=600)
    task = task_of(bench, max_unfinished_runs=50)
    deferral = task.execute()
    bench.ti.unfinished = lambda dag_id: 0

    assert message_ids(task.resume(deferral, {"status": "poll"})) == ["a"]
    record = bench.ti.xcoms[bench.ti.run_id, "workflow_alarm", -1]
    assert Alarm.of(record).problem_at > clock.now() - 300, "it was found again beside the message"
