"""The notice trigger: when it fires, and which faults and states of the inbox it survives."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import groupby, pairwise
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_workflow import moments
from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.triggers import polling
from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger
from airflow_provider_workflow.triggers.notice import (
    NoticeSchedule,
    WorkflowInboxNoticeTrigger,
)
from airflow_provider_workflow.triggers.polling import MAX_WATCHED_PAGES
from tests.unit.fake_clock import FakeClock, TimedEvent
from tests.unit.fake_stats import FakeStats
from tests.unit.flapping import Store
from tests.unit.triggers.conftest import being_deleted
from tests.unit.workbench import INBOX, Workbench


class Over(BaseException):
    """The day is over: ends a watcher, which by itself goes on for ever."""


class Day:
    """
    What happens to a watcher while its time passes, and its event stream; the service's clock moves along.

    :param bench: the inbox ``orders``.
    :param fake_clock: moves only while the watcher waits.
    """

    def __init__(self, bench: Workbench, fake_clock: FakeClock) -> None:
        self.bench = bench
        self.clock = fake_clock
        self.listeners = 0
        self.wake_up = TimedEvent(fake_clock)
        fake_clock.moved_along.append(bench.service.store.clock)

    @property
    def second(self) -> float:
        return round(self.clock.elapsed, 6)

    @property
    def pages(self) -> list[int]:
        """How many pages of the list were read, each time that any was."""
        read = [request.at for request in self.bench.service.requests if request.operation == "list_messages"]
        return [len(list(group)) for _, group in groupby(read)]

    def at(self, second: float, act: Callable[[], Any], *, is_announced: bool = False) -> None:
        """
        Let something happen.

        :param told: whether the event stream tells of it.
        """

        def happen() -> None:
            try:
                act()
            except Exception as error:
                # Not an exception that a watcher survives.
                raise Over(error) from error
            if is_announced:
                self.wake_up.set()

        self.clock.at(self.clock.start + second, happen)

    def ends(self, second: float) -> None:
        self.clock.at(self.clock.start + second, Mock(side_effect=Over))

    def put(self, second: float, *ids: str, is_announced: bool = True) -> None:
        self.at(second, lambda: self.bench.put(*ids), is_announced=is_announced)

    @asynccontextmanager
    async def listen(self, client: Any, inbox_id: str, streams: int) -> AsyncIterator[TimedEvent | None]:
        if not streams:
            yield None
            return
        self.listeners += 1
        try:
            yield self.wake_up
        finally:
            self.listeners -= 1

    async def notices(self, trigger: Any, until: float) -> list[float]:
        """The seconds at which a trigger makes a notice, up to the end of the day."""
        return [second for second, _ in await self.events(trigger, until)]

    async def events(self, trigger: Any, until: float) -> list[tuple[float, Any]]:
        self.ends(until)
        events_of_trigger: list[tuple[float, Any]] = []
        async with aclosing(trigger.run()) as events:
            try:
                async for event in events:
                    events_of_trigger.append((self.second, event.payload))
            except Over as over:
                if over.args:
                    raise
                return events_of_trigger
        raise AssertionError("the watcher ended by itself")


@pytest.fixture
def day(bench: Workbench, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Day:
    day_of_test = Day(bench, fake_clock)
    monkeypatch.setattr("airflow_provider_workflow.client.event_stream.listen", day_of_test.listen)
    return day_of_test


def trigger(**arguments: Any) -> WorkflowInboxNoticeTrigger:
    return WorkflowInboxNoticeTrigger(**{"inbox": INBOX, **arguments})


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the trigger itself logged, but for how it waits, which it says once when it begins."""
    names = ("triggers.notice", "dispatch.lease")
    records = [record for record in caplog.records if record.name.endswith(names)]
    texts = [f"{record.levelname} {record.getMessage()}" for record in records]
    return [text for text in texts if "waiting for messages" not in text]


@pytest.fixture(autouse=True)
def info_log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


@pytest.mark.parametrize(
    ("groups", "due"),
    [
        (("a", "a", "ab", "a"), [0]),
        (("a", *["a"] * 12), [0, 60, 120]),
        (("ab", "c"), [0, 10]),
        (("a", "", "a"), [0, 20]),
        (("a", "ab", "b"), [0, 20]),
        (("", "", "a"), [20]),
    ],
    ids=[
        "the same ones",
        "for long",
        "all are new",
        "gone and back",
        "the later one is left",
        "the first one",
    ],
)
def test_a_notice_is_due_where_none_of_the_messages_had_one_and_each_minute(
    fake_clock: FakeClock, groups: tuple[str, ...], due: list[int]
) -> None:
    schedule = NoticeSchedule(renotify_seconds=60)
    seconds = []
    for ids in groups:
        if schedule.is_due(frozenset(ids)):
            seconds.append(fake_clock.elapsed)
        fake_clock.advance(10)

    assert seconds == due


async def test_a_rate_limit_of_an_hour_is_waited_for_and_is_no_alarm(bench: Workbench, day: Day) -> None:
    limited = {"status": 429, "headers": {"Retry-After": "3600"}, "times": 1}
    day.at(100, lambda: bench.service.fault("status", operation="list_messages", **limited))
    day.put(200, "a")
    events = await day.events(trigger(wake_on_events=False), until=4000)

    at = [request.at for request in bench.service.requests if request.operation == "list_messages"]
    limited_at = next(request.at for request in bench.service.requests if request.status == 429)
    assert min(moment for moment in at if moment > limited_at) - limited_at >= 3600
    assert [payload["alarm"] for _, payload in events] == [False] * len(events)
    assert 3700 <= events[0][0] <= 3800, "once it is over, the message is announced"


async def test_no_event_has_the_body_of_an_error(
    bench: Workbench, day: Day, fake_stats: FakeStats, info_log: pytest.LogCaptureFixture
) -> None:
    body = {"errors": [{"code": "c", "detail": "d", "meta": {"full_details": "what-was-sent"}}]}
    bench.service.fault("status", operation="list_messages", status=403, json=body, times=None)
    events = await day.events(trigger(wake_on_events=False), until=600)

    assert [payload["alarm"] for _, payload in events] == [True]
    assert "what-was-sent" not in f"{events}{fake_stats.calls}{info_log.text}"


async def test_it_keeps_silent_while_there_is_nothing(bench: Workbench, day: Day) -> None:
    assert await day.notices(trigger(), until=3600) == []


async def test_there_is_a_notice_when_a_message_is_announced(bench: Workbench, day: Day) -> None:
    day.put(100.5, "a")

    notices = await day.notices(trigger(), until=150)
    start = bench.service.requests[0].at
    polls = [r.at - start for r in bench.service.requests if r.operation == "list_messages"]
    # It polls beside a reading of the state too, which comes at a random moment.
    last_poll = max(second for second in polls if second < 100.5)
    assert notices == [max(100.5, last_poll + polling.MIN_WAIT_SECONDS)]


async def test_there_is_a_notice_for_what_was_there_before_it_began(bench: Workbench, day: Day) -> None:
    bench.put("a")

    assert await day.notices(trigger(), until=30) == [0]


async def test_a_notice_names_the_inbox_and_carries_no_message(bench: Workbench, day: Day) -> None:
    bench.put("a", payload={"secret": "of a customer"})
    ((second, payload),) = await day.events(trigger(), until=1)

    names = {"inbox": "orders", "inbox_id": bench.inbox_id, "workflow_conn_id": "workflow_default"}
    assert {name: payload[name] for name in names} == names
    assert (second, "customer" in json.dumps(payload)) == (0, False)


async def test_notices_are_five_seconds_apart_however_fast_messages_come_and_go(
    bench: Workbench, day: Day
) -> None:
    def take() -> None:
        lease = bench.service.store.messages.lease(bench.inbox_id)
        bench.service.store.messages.acknowledge(bench.inbox_id, lease["lease_id"])

    for second in range(100, 200):
        day.put(second, f"{second}")
        # The inbox is never empty at a tick: polls could meet it then only.
        day.at(second + 0.55, take)
        day.put(second + 0.6, f"{second} again")
    notices = await day.notices(trigger(), until=300)

    assert len(notices) >= 15
    assert min(later - earlier for earlier, later in pairwise(notices)) >= 5


async def test_a_stream_that_never_stops_causes_one_poll_a_second(bench: Workbench, day: Day) -> None:
    for number in range(1000):
        day.at(number / 100, lambda: None, is_announced=True)
    await day.notices(trigger(), until=11)

    assert bench.service.count("list_messages") in (10, 11)


async def test_new_messages_begin_the_intervals_of_polls_anew(bench: Workbench, day: Day) -> None:
    day.put(1000, "a", is_announced=False)
    first, *_ = await day.notices(trigger(wake_on_events=False, max_poll_interval=300), until=1300)
    polls = [request.at - bench.service.requests[0].at for request in bench.service.requests]
    after = [round(poll - first) for poll in polls if first < poll]
    assert after[:2] == [5, 15], (first, polls)


async def test_without_the_event_stream_it_polls_and_opens_none(bench: Workbench, day: Day) -> None:
    day.put(100, "a")
    first, *_ = await day.notices(trigger(wake_on_events=False), until=180)
    assert 100 <= first <= 161
    assert day.listeners == 0


async def test_the_end_of_the_watcher_closes_its_stream(bench: Workbench, day: Day) -> None:
    bench.put("a")
    day.ends(100)
    async with aclosing(trigger().run()) as events:  # type: ignore[type-var]
        await anext(events)
        assert day.listeners == 1
    assert day.listeners == 0


async def test_polls_of_all_watchers_share_quarters_of_a_second(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    fake_clock.advance(0.1)
    fake_clock.at(fake_clock.start + 60, Mock(side_effect=Over))
    with pytest.raises(Over):
        async for _ in trigger(wake_on_events=False).run():
            pass
    assert fake_clock.slept
    first, *rest = fake_clock.slept
    assert (fake_clock.start + 0.1 + first) % 0.25 == pytest.approx(0, abs=1e-6)
    assert all(seconds % 0.25 == pytest.approx(0, abs=1e-6) for seconds in rest)


async def test_a_name_that_no_text_can_hold_ends_no_triggerer(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture
) -> None:
    ((_, alarm),) = await day.events(trigger(inbox="orders\ud800\0"), until=600)
    assert alarm["inbox"] == r"orders\ud800\x00"
    assert r"Inbox orders\ud800\x00" in lines(caplog)[0]


async def test_its_notices_are_counted(bench: Workbench, day: Day, fake_stats: FakeStats) -> None:
    bench.put("a")
    await day.notices(trigger(), until=70)

    assert fake_stats.totals == {"notices": 2}
    assert fake_stats.tags == [{"inbox": "orders", "conn_id": "workflow_default"}]


async def test_in_a_triggerer_a_wrong_argument_is_the_one_error_that_it_survives() -> None:
    with pytest.raises(TypeError, match="renotify_seconds"):
        trigger(renotify_seconds=1)


async def test_of_a_longer_list_ten_pages_are_read_and_there_is_a_notice_a_minute_for_what_they_do_not_show(
    bench: Workbench, day: Day
) -> None:
    bench.service.store.configure(page_size=9)
    bench.put(*[f"m{number:02}" for number in range(100)])
    bench.service.store.messages.lease(bench.inbox_id, 3600, 100)
    for second in range(1, 100):
        day.at(second, lambda: None, is_announced=True)

    notices = await day.notices(trigger(), until=250)
    assert (len(notices), notices[0]) == (5, 0)
    # A poll for the state of the inbox, at a random moment, delays the next one by a second at most.
    assert all(60 <= later - sooner <= 61 for sooner, later in pairwise(notices))
    assert max(day.pages) == MAX_WATCHED_PAGES
    assert bench.service.count("lease") == 0


@pytest.mark.parametrize("order", ["oldest", "newest"])
async def test_a_list_of_ten_pages_is_read_whole(bench: Workbench, day: Day, order: str) -> None:
    bench.service.store.configure(list_order=order, page_size=10)
    bench.put(*[f"m{number:02}" for number in range(99)])
    bench.service.store.messages.lease(bench.inbox_id, 3600, 99)
    bench.put("available")
    assert await day.notices(trigger(), until=1) == [0]
    assert day.pages == [10 if order == "oldest" else 1]


@pytest.mark.parametrize(
    ("mishap", "cause"),
    [
        ("wrong secret", "401 (invalid_client): Unknown client or wrong secret."),
        ("no inbox", "Inbox 'orders' does not exist: create it"),
        ("no connection", "Airflow has no connection 'workflow_default' (add it in"),
        ("bad connection", "password is missing (set it as Client secret)"),
        ("broken inbox", "failed to initialize (subscribe_failed). Delete it and create it again."),
        ("mistake of our own", "KeyError: 'made up'"),
    ],
)
async def test_a_fault_that_somebody_has_to_fix_does_not_end_it_nor_make_it_spin(
    bench: Workbench,
    day: Day,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    mishap: str,
    cause: str,
) -> None:
    connection = json.loads(bench.service.connection_json())
    name = "AIRFLOW_CONN_WORKFLOW_DEFAULT"
    if mishap == "wrong secret":
        monkeypatch.setenv(name, json.dumps({**connection, "password": "another"}))
    elif mishap == "no inbox":
        bench.service.store.inboxes.delete(bench.inbox_id)
    elif mishap == "no connection":
        monkeypatch.delenv(name)
        missing = AirflowNotFoundException("The conn_id `workflow_default` isn't defined")
        read = "airflow.providers.common.compat.connection.get_async_connection"
        monkeypatch.setattr(read, AsyncMock(side_effect=missing))
    elif mishap == "bad connection":
        monkeypatch.setenv(name, json.dumps({**connection, "password": ""}))
    elif mishap == "broken inbox":
        bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure", "subscribe_failed")
    else:
        monkeypatch.setattr(polling, "report_quarantined", Mock(side_effect=KeyError("made up")))
    notices = await day.notices(trigger(), until=3600)

    assert len(notices) == 1, "an alarm"
    assert 60 <= notices[0] < 300
    problems = [line for line in lines(caplog) if not line.startswith("INFO")]
    assert [line.split()[0] for line in problems] == ["ERROR", "ERROR"], "at once, and after five minutes"
    assert all(cause in line for line in problems)
    assert len(bench.service.requests) < 400
    assert bench.service.client_secret not in caplog.text
    assert max(day.clock.slept) <= 60, "it is usable within a minute again"


@pytest.mark.parametrize(
    ("reason", "is_busy"), [("authentication", False), (None, False), ("user", False), ("abandoned", True)]
)
async def test_while_the_service_has_paused_the_inbox_there_is_an_alarm_and_again_if_it_may_be_lost(
    bench: Workbench, day: Day, reason: str | None, is_busy: bool
) -> None:
    day.at(1000, lambda: bench.service.store.inboxes.force(bench.inbox_id, "paused", reason))
    bench.put(*["a"] * is_busy)
    events = await day.events(trigger(), until=3600)
    alarms = [second for second, payload in events if payload["alarm"]]

    assert is_busy or len(events) == len(alarms)
    assert all(1000 < second < 1300 for second in alarms[:1])
    repeated = [660.0] if is_busy and airflow_release() < (3, 4) else []
    after = [] if reason == "user" else [0.0, *repeated]
    assert [alarm - alarms[0] for alarm in alarms] == pytest.approx(after, abs=65)


@pytest.mark.parametrize("status", [503, 404])
async def test_there_is_an_alarm_though_the_messages_cannot_be_listed(
    bench: Workbench, day: Day, status: int
) -> None:
    def pause() -> None:
        bench.service.store.inboxes.force(bench.inbox_id, "paused", "upstream_failures")
        bench.service.fault("status", operation="list_messages", status=status, times=None)

    day.at(100, pause)
    [(second, payload)] = await day.events(trigger(), until=3600)

    assert payload["alarm"] is True
    assert 160 <= second < 300


async def test_a_gauge_is_0_while_the_source_is_silent(
    bench: Workbench, day: Day, fake_stats: FakeStats
) -> None:
    inboxes = bench.service.store.inboxes
    day.at(100, lambda: inboxes.force(bench.inbox_id, "paused", "authentication"))
    day.at(1000, lambda: inboxes.force(bench.inbox_id, "active"))
    day.at(2000, lambda: inboxes.force(bench.inbox_id, "paused", "user"))
    day.at(3000, lambda: inboxes.delete(bench.inbox_id))
    await day.notices(trigger(), until=4000)

    values = [
        (value, tags["inbox"]) for name, value, tags in fake_stats.calls if name == "workflow.inbox.active"
    ]
    assert [value for value, _ in groupby(values)] == [(1, INBOX), (0, INBOX), (1, INBOX), (0, INBOX)]


@pytest.mark.parametrize(("sound_seconds", "alarms"), [(3000, 1), (4000, 2)])
async def test_a_pause_after_an_hour_without_one_is_another_alarm(
    bench: Workbench, day: Day, sound_seconds: float, alarms: int
) -> None:
    def force(status: str, reason: str | None = None) -> Callable[[], object]:
        return lambda: bench.service.store.inboxes.force(bench.inbox_id, status, reason)

    day.at(100, force("paused", "authentication"))
    day.at(1000, force("active"))
    day.at(1000 + sound_seconds, force("paused", "upstream_failures"))
    notices = await day.notices(trigger(), until=1000 + sound_seconds + 600)

    assert len(notices) == alarms
    assert 160 < notices[0] < 300


async def test_an_alarm_names_what_is_wrong_and_since_when(bench: Workbench, day: Day) -> None:
    day.at(100, lambda: bench.service.store.inboxes.force(bench.inbox_id, "paused", "upstream_failures"))
    [(_, alarm)] = await day.events(trigger(), until=400)

    problem = alarm["problem"]
    assert (alarm["alarm"], alarm["inbox_id"], problem["kind"]) == (True, bench.inbox_id, "paused")
    assert "'orders' is paused (upstream_failures)" in problem["text"]
    assert "airflow-workflow inbox resume orders --conn-id workflow_default" in problem["text"]
    assert moments.iso(day.clock.start + 100) <= problem["since"] < moments.iso(day.clock.start + 165)


async def test_the_text_of_an_unexpected_error_is_in_no_event(
    bench: Workbench, day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "report_quarantined", Mock(side_effect=KeyError("may be a payload")))
    [(_, alarm)] = await day.events(trigger(), until=400)

    assert "KeyError" in alarm["problem"]["text"]
    assert "payload" not in str(alarm)


class TestRestarts:
    """The triggerer is restarted every ten minutes, while the inbox is paused."""

    @pytest.fixture(autouse=True)
    def paused(self, bench: Workbench, day: Day) -> None:
        bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")

    async def alarms_of_two_hours(self, day: Day, store: Any) -> list[float]:
        alarms: list[float] = []
        for number in range(1, 13):
            watcher: Any = trigger()
            watcher.asset_state_store = store
            alarms += await day.notices(watcher, until=600 * number)
        return alarms

    @pytest.mark.since(3, 3, "the state store of an asset")
    async def test_it_knows_its_last_alarm(self, day: Day) -> None:
        store = Store()
        [alarm] = await self.alarms_of_two_hours(day, store)

        assert 60 <= alarm < 180
        [(key, record)] = store.rows.items()
        assert key == "workflow_alarm:workflow_default:orders"
        assert record["kind"] == "paused"
        assert json.loads(json.dumps(record)) == record

    @pytest.mark.parametrize("fault", [ValueError("two assets"), ConnectionError(), None])
    async def test_without_a_store_it_raises_its_alarm_again(self, day: Day, fault: Any) -> None:
        store = (
            None
            if fault is None
            else Mock(aget=AsyncMock(side_effect=fault), aset=AsyncMock(side_effect=fault))
        )

        assert len(await self.alarms_of_two_hours(day, store)) == 12

    async def test_after_an_hour_without_a_problem_it_forgets_the_alarm(
        self, bench: Workbench, day: Day
    ) -> None:
        store = Store()
        watcher: Any = trigger()
        watcher.asset_state_store = store
        day.at(600, lambda: bench.service.store.inboxes.force(bench.inbox_id, "active"))
        await day.notices(watcher, until=4400)

        assert store.rows == {}


async def test_a_watcher_of_a_sound_inbox_asks_no_store(bench: Workbench, day: Day) -> None:
    watcher: Any = trigger()
    watcher.asset_state_store = store = Mock()
    bench.put("a")
    await day.notices(watcher, until=600)

    assert store.mock_calls == []


async def test_the_state_is_read_at_random_moments(bench: Workbench, day: Day) -> None:
    """A fixed rhythm could always meet an inbox that pauses and resumes in step in the same state."""
    await day.notices(trigger(max_poll_interval=3600, poll_interval=3600), until=3600)
    read = [request.at for request in bench.service.requests if request.operation == "list_inboxes"]
    intervals = [later - sooner for sooner, later in pairwise(read)]

    assert all(20 <= interval <= 56 for interval in intervals)
    assert len(set(intervals)) > 25


async def test_an_error_during_an_alarm_is_no_new_alarm(bench: Workbench, day: Day) -> None:
    day.at(100, lambda: bench.service.store.inboxes.force(bench.inbox_id, "paused", "authentication"))
    day.at(2000, lambda: bench.service.fault("status", operation="list_messages", status=403, times=1))

    assert len(await day.notices(trigger(), until=3600)) == 1


async def test_after_an_outage_an_alarm_comes_no_later(bench: Workbench, day: Day) -> None:
    bench.service.fault("status", operation="list_messages", status=503, times=8)
    day.at(640, lambda: bench.service.store.inboxes.delete(bench.inbox_id))

    assert [640 < notice < 1000 for notice in await day.notices(trigger(), until=1400)] == [True]


async def test_a_connection_that_is_fixed_is_used(
    bench: Workbench, day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, right = "AIRFLOW_CONN_WORKFLOW_DEFAULT", bench.service.connection_json()
    monkeypatch.setenv(name, right.replace(bench.service.client_secret, "another-secret"))
    bench.put("a")
    day.at(1000, lambda: monkeypatch.setenv(name, right))
    (first, alarm), (second, message), *_ = await day.events(trigger(), until=1400)

    assert (first < 300, alarm["alarm"]) == (True, True)
    assert (1000 < second <= 1300, message["alarm"]) == (True, False)


async def test_a_new_inbox_is_watched_while_the_former_one_of_its_name_is_being_deleted(
    bench: Workbench, day: Day
) -> None:
    day.at(500, lambda: being_deleted(bench))
    notices = await day.notices(trigger(), until=3600)

    assert notices[0] < 1000


async def test_the_trigger_of_a_sensor_leaves_an_inbox_that_is_being_deleted(
    bench: Workbench, day: Day
) -> None:
    day.at(500, lambda: being_deleted(bench))
    day.ends(1000)
    async with aclosing(WorkflowInboxTrigger(INBOX, wake_on_events=False).run()) as events:
        event = (await anext(events)).payload
    assert [message["id"] for message in json.loads(event["lease"])["messages"]] == ["new"]


async def test_a_pause_is_an_alarm_within_three_minutes_whatever_the_interval_of_polls(
    bench: Workbench, day: Day
) -> None:
    day.at(8000, lambda: bench.service.store.inboxes.force(bench.inbox_id, "paused", "authentication"))
    notices = await day.notices(trigger(max_poll_interval=3600), until=8180)

    assert len(notices) == 1


@pytest.mark.parametrize(("seconds", "alarms"), [(110, 0), (400, 1)])
async def test_a_connection_that_airflow_does_not_find_is_an_alarm_after_three_minutes(
    day: Day, monkeypatch: pytest.MonkeyPatch, seconds: float, alarms: int
) -> None:
    name, right = "AIRFLOW_CONN_WORKFLOW_DEFAULT", os.environ["AIRFLOW_CONN_WORKFLOW_DEFAULT"]
    monkeypatch.delenv(name)
    day.at(seconds, lambda: monkeypatch.setenv(name, right))
    assert len(await day.notices(trigger(), until=1800)) == alarms


@pytest.mark.parametrize("statuses", [(403, 404), (403, 429)])
async def test_errors_in_turn_are_an_alarm(bench: Workbench, day: Day, statuses: tuple[int, int]) -> None:
    for status in statuses * 100:
        bench.service.fault("status", operation="list_messages", status=status, times=1)
    assert await day.notices(trigger(), until=1800)
