"""The notice trigger: when it fires, and which faults and states of the inbox it survives."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
from airflow.exceptions import AirflowOptionalProviderFeatureException
from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger

from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.triggers.notice import (
    MOST_PAGES,
    UNSEEN,
    NoticeSchedule,
    WorkflowInboxNoticeTrigger,
)
from tests.unit.counted import Counted
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.day import Day
from tests.unit.triggers.notices import lines, said, trigger
from tests.unit.workbench import INBOX, Workbench

__all__ = ["said"]


async def test_its_event_names_the_inbox_and_carries_no_message(bench: Workbench, day: Day) -> None:
    bench.put("a", payload={"secret": "of a customer"})

    assert await day.events(trigger(), until=1) == [
        (
            0,
            {
                "inbox": "orders",
                "inbox_id": bench.inbox_id,
                "workflow_conn_id": "workflow_default",
            },
        )
    ]


async def test_how_it_waits_is_logged_when_it_begins(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture
) -> None:
    await day.notices(trigger(), until=600)

    how = "by its event stream and by polling every 5 to 60 s"
    assert (
        caplog.text.count(f"Inbox orders at 127.0.0.1:{bench.service.port}: waiting for messages, {how}") == 1
    )


async def test_it_never_leases(bench: Workbench, day: Day) -> None:
    bench.put("a", "b")
    await day.notices(trigger(), until=600)

    assert bench.states == {"a": "available", "b": "available"}
    operations = {each.operation for each in bench.service.requests}
    assert operations == {"token", "list_inboxes", "get_inbox", "list_messages"}


async def test_it_keeps_silent_while_there_is_nothing(bench: Workbench, day: Day) -> None:
    assert await day.notices(trigger(), until=3600) == []


async def test_there_is_a_notice_when_a_message_is_announced(bench: Workbench, day: Day) -> None:
    day.put(100.5, "a")

    assert await day.notices(trigger(), until=150) == [100.5]


async def test_there_is_a_notice_for_a_message_that_nobody_announced_at_the_next_look(
    bench: Workbench, day: Day
) -> None:
    day.put(16, "a", told=False)

    assert await day.notices(trigger(), until=60) == [35]


async def test_there_is_a_notice_for_what_was_there_before_it_began(bench: Workbench, day: Day) -> None:
    bench.put("a")

    assert await day.notices(trigger(), until=30) == [0]


async def test_there_is_one_notice_for_a_burst(bench: Workbench, day: Day) -> None:
    for n in range(200):
        day.put(100 + n / 50, str(n))
    day.take(107)

    assert await day.notices(trigger(), until=1000) == [100]


async def test_there_are_notices_while_messages_remain_and_none_when_they_are_gone(
    bench: Workbench, day: Day
) -> None:
    day.put(100, "a", "b")
    day.take(250)

    assert await day.notices(trigger(renotify_seconds=60), until=1000) == [100, 160, 220]


async def test_there_is_a_notice_at_once_for_what_comes_after_the_inbox_was_drained(
    bench: Workbench, day: Day
) -> None:
    day.put(100, "a", "b")
    day.take(103)
    day.put(108, "c")

    assert await day.notices(trigger(), until=150) == [100, 108]


async def test_notices_are_five_seconds_apart_however_fast_messages_come_and_go(
    bench: Workbench, day: Day
) -> None:
    for second in range(100, 200):
        day.put(second, f"{second}")
        day.take(second + 0.5)
        day.put(second + 0.6, f"{second} again")
    notices = await day.notices(trigger(), until=300)

    assert len(notices) >= 15
    assert min(later - earlier for earlier, later in pairwise(notices)) >= 5


async def test_a_lease_that_expired_leads_to_a_notice_though_nothing_tells(
    bench: Workbench, day: Day
) -> None:
    day.put(100, "a", "b")
    day.take(103, seconds=300, acknowledge=False)
    notices = await day.notices(trigger(max_poll_interval=60), until=500)

    assert notices[0] == 100
    assert 403 <= notices[1] <= 463
    assert bench.states == {"a": "available", "b": "available"}


async def test_it_works_without_the_event_stream(bench: Workbench, day: Day) -> None:
    day.put(100, "a")

    assert await day.notices(trigger(wake_on_events=False), until=140) == [135]
    assert day.listeners == 0


async def test_its_looks_are_further_and_further_apart_while_nothing_happens(
    bench: Workbench, day: Day
) -> None:
    await day.notices(trigger(), until=275)

    # At 0, 5, 15, 35, 75, 135, 195 and 255 s.
    assert len(day.pages) == 8


async def test_a_stream_that_never_stops_speaking_makes_it_look_once_a_second_at_most(
    bench: Workbench, day: Day
) -> None:
    for n in range(1000):
        day.at(n / 100, lambda: None, told=True)
    await day.notices(trigger(), until=11)

    assert sum(day.pages) <= 11


async def test_its_notices_are_counted(bench: Workbench, day: Day, counted: Counted) -> None:
    bench.put("a")
    await day.notices(trigger(), until=70)

    assert counted.totals == {"notices": 2}
    assert counted.tags == [{"inbox": "orders", "conn_id": "workflow_default"}]


async def test_the_end_of_the_trigger_closes_its_stream_and_its_session(bench: Workbench, day: Day) -> None:
    bench.put("a")
    day.ends(100)
    async with aclosing(trigger().run()) as events:  # type: ignore[type-var]
        await anext(events)
        assert day.listeners == 1

    assert day.listeners == 0


async def test_a_trigger_that_is_cancelled_while_it_looks_ends(bench: Workbench, day: Day) -> None:
    bench.service.fault("hold", operation="list_messages")
    running = asyncio.ensure_future(day.notices(trigger(), until=100))
    await asyncio.to_thread(bench.service.wait_until_held)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    bench.service.release(drop=True)

    assert day.listeners == 0


async def test_two_watchers_of_an_inbox_share_its_stream(bench: Workbench) -> None:
    bench.put("a")
    runs = [trigger(renotify_seconds=each).run() for each in (60, 70)]
    try:
        for run in runs:
            assert (await anext(run)).payload["inbox_id"] == bench.inbox_id
        assert bench.service.count("events") == 1
    finally:
        for run in runs:
            await run.aclose()  # type: ignore[attr-defined]


class Subclass(WorkflowInboxNoticeTrigger):
    """A trigger of somebody else's."""


def test_it_comes_back_from_what_it_serializes() -> None:
    given = {
        "inbox": "orders",
        "workflow_conn_id": "other",
        "renotify_seconds": 30,
        "poll_interval": 2,
        "max_poll_interval": 20.5,
        "wake_on_events": False,
        "queue": None,
    }
    path, kwargs = WorkflowInboxNoticeTrigger(**given).serialize()

    assert path == "airflow_provider_workflow.triggers.notice.WorkflowInboxNoticeTrigger"
    assert kwargs == given
    assert WorkflowInboxNoticeTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


def test_a_subclass_serializes_as_itself() -> None:
    assert Subclass("orders").serialize()[0] == f"{__name__}.Subclass"


def test_airflow_takes_two_watchers_with_the_same_arguments_for_one_trigger() -> None:
    hashes = {BaseEventTrigger.hash(*trigger(**arguments).serialize()) for arguments in ({}, {})}
    others = {BaseEventTrigger.hash(*trigger(inbox=name).serialize()) for name in ("a", "b")}

    assert len(hashes) == 1
    assert len(hashes | others) == 3


def test_airflow_takes_it_for_the_trigger_of_an_asset() -> None:
    watcher = AssetWatcher(name="orders", trigger=trigger())

    assert Asset("orders", watchers=[watcher]).watchers == [watcher]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"inbox": ""}, "inbox must be a string that is not empty"),
        ({"workflow_conn_id": " "}, "workflow_conn_id must be a string that is not empty"),
        ({"renotify_seconds": 4.9}, "renotify_seconds must be a number of seconds of 5 or more, not 4.9"),
        ({"renotify_seconds": "60"}, "renotify_seconds must be a number of seconds of 5 or more, not '60'"),
        ({"renotify_seconds": float("inf")}, "renotify_seconds must be a number of seconds of 5 or more"),
        ({"poll_interval": 90}, r"poll_interval \(90 s\) must be at most max_poll_interval \(60 s\)"),
        ({"wake_on_events": "False"}, "wake_on_events must be True or False, not 'False'"),
        ({"queue": ""}, "queue must be a string that is not empty"),
        ({"queue": "q" * 257}, "queue must have at most 256 characters, not 257"),
    ],
)
def test_a_wrong_argument_is_named_where_the_dag_is_parsed(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}"):
        trigger(**arguments)


async def test_in_a_triggerer_a_wrong_argument_is_the_one_error_that_it_survives() -> None:
    with pytest.raises(TypeError, match="renotify_seconds"):
        trigger(renotify_seconds=1)


def test_a_queue_of_triggerers_is_serialized(release: Callable[[int, int], None]) -> None:
    release(3, 4)
    path, kwargs = trigger(queue="watchers").serialize()
    assert kwargs["queue"] == "watchers"
    assert WorkflowInboxNoticeTrigger(**kwargs).serialize() == (path, kwargs)


def test_a_queue_needs_airflow_3_4(release: Callable[[int, int], None]) -> None:
    release(3, 3)
    with pytest.raises(AirflowOptionalProviderFeatureException) as raised:
        trigger(queue="watchers")

    assert str(raised.value) == (
        "WorkflowInboxNoticeTrigger(queue=...) needs Airflow 3.4 or later, and this is 3.3.0;"
        " leave it out, and every triggerer may run the watcher."
    )


@pytest.mark.since(3, 4, "queues of triggerers")
def test_airflow_stores_the_queue_beside_the_trigger() -> None:
    from airflow.serialization.encoders import encode_trigger

    assert encode_trigger(trigger(queue="watchers"))["queue"] == "watchers"
    assert "queue" not in encode_trigger(trigger())


@pytest.fixture
def crowd(bench: Workbench) -> None:
    """5,000 messages that cannot be leased, half of them leased, half of them quarantined."""
    leases = bench.service.store.messages
    for group in range(50):
        bench.put(*[f"{group}-{n}" for n in range(100)], lease_count=4 * (group % 2))
        lease_id = leases.lease(bench.inbox_id, 3600, 100)["lease_id"]
        if group % 2:
            leases.release(bench.inbox_id, lease_id)


@pytest.mark.usefixtures("crowd")
async def test_of_five_thousand_ten_pages_are_read_and_there_is_a_notice_a_minute_for_what_they_do_not_show(
    bench: Workbench, day: Day
) -> None:
    for second in range(1, 100):
        day.at(second, lambda: None, told=True)

    assert await day.notices(trigger(), until=250) == [0, 60, 120, 180, 240]
    assert max(day.pages) == MOST_PAGES
    assert bench.service.count("lease") == 0


@pytest.mark.parametrize("order", ["oldest", "newest"])
async def test_a_list_of_ten_pages_is_read_whole(bench: Workbench, day: Day, order: str) -> None:
    bench.service.store.configure(list_order=order, page_size=10)
    bench.put(*[f"m{number:02}" for number in range(99)])
    bench.service.store.messages.lease(bench.inbox_id, 3600, 99)
    bench.put("available")
    assert await day.notices(trigger(), until=1) == [0]
    assert day.pages == [10 if order == "oldest" else 1]


async def test_a_service_that_shows_one_page_for_ever_is_not_asked_for_ever(
    bench: Workbench, day: Day
) -> None:
    page = {"results": [], "previous": None, "next": "https://service/messages?cursor=same"}
    bench.service.fault("status", operation="list_messages", status=200, json=page, times=None)
    await day.notices(trigger(), until=1)

    assert day.pages == [MOST_PAGES]


async def test_each_quarantined_message_is_reported_once(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture, counted: Counted
) -> None:
    bench.put("a", "b", lease_count=4)
    bench.hook.release_messages(INBOX, bench.lease().lease_id)
    await day.notices(trigger(), until=600)

    text = "is in quarantine; it is not delivered again and starts no run"
    assert [line for line in lines(caplog) if "quarantine" in line] == [
        f"ERROR Inbox orders: message {each} {text}" for each in ("a", "b")
    ]
    assert counted.totals["quarantined"] == 2


@pytest.mark.parametrize(
    "fault",
    [{"kind": "status", "status": 503}, {"kind": "drop"}],
)
async def test_a_fault_that_passes_is_survived_and_what_came_meanwhile_is_rung_for(
    bench: Workbench, day: Day, fault: dict[str, Any]
) -> None:
    def begin() -> None:
        bench.service.fault(**fault, times=None)

    day.at(50, begin)
    day.put(60, "a", told=False)
    day.at(90, bench.service.emulator.faults.clear)
    notices = await day.notices(trigger(), until=200)

    assert notices
    assert notices[0] < 180


async def test_each_change_of_its_fortunes_is_one_line_and_no_poll_is(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture
) -> None:
    day.at(600, lambda: bench.service.fault("status", status=503, times=None))
    day.at(700, bench.service.emulator.faults.clear)
    await day.notices(trigger(), until=3600)

    assert [line.split(";")[0] for line in lines(caplog)] == [
        "INFO Inbox orders is active",
        "WARNING Inbox orders is unreachable",
        "INFO Inbox orders is reachable again",
    ]


async def test_five_minutes_of_faults_are_said_once_with_the_cause(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture
) -> None:
    day.at(600, lambda: bench.service.fault("status", status=503, times=None, detail="made up"))
    await day.notices(trigger(), until=7200)

    errors = [line for line in lines(caplog) if line.startswith("ERROR")]
    assert len(errors) == 1
    assert "503 (error): made up" in errors[0]


@pytest.mark.parametrize(
    ("mishap", "cause"),
    [
        ("wrong secret", "401 (invalid_client): Unknown client or wrong secret."),
        ("no inbox", "Inbox 'orders' does not exist: create it"),
        ("no connection", "workflow_default"),
        ("bad connection", "password is missing (set the client secret as Password)"),
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
        monkeypatch.setattr("airflow.providers.common.compat.connection.get_async_connection", _no_connection)
    elif mishap == "bad connection":
        monkeypatch.setenv(name, json.dumps({**connection, "password": ""}))
    elif mishap == "broken inbox":
        bench.service.store.inboxes.force(bench.inbox_id, "initialization_failure", "subscribe_failed")
    else:
        monkeypatch.setattr(quarantine, "report", _mistake)
    assert await day.notices(trigger(), until=3600) == []

    said = [line for line in lines(caplog) if not line.startswith("INFO")]
    assert [line.split()[0] for line in said] == ["ERROR", "ERROR"], "at once, and after five minutes"
    assert all(cause in line for line in said)
    assert len(bench.service.requests) < 200
    assert bench.service.client_secret not in caplog.text
    assert day.clock.slept[-1] == 300


def _mistake(*_: Any, **__: Any) -> None:
    raise KeyError("made up")


async def _no_connection(conn_id: str) -> Any:
    raise AirflowNotFoundException(f"The conn_id `{conn_id}` isn't defined")


async def test_a_connection_that_is_fixed_is_used(
    bench: Workbench, day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, right = "AIRFLOW_CONN_WORKFLOW_DEFAULT", bench.service.connection_json()
    monkeypatch.setenv(name, right.replace(bench.service.client_secret, "another-secret"))
    bench.put("a")
    day.at(1000, lambda: monkeypatch.setenv(name, right))
    notices = await day.notices(trigger(), until=1400)

    assert notices
    assert 1000 < notices[0] <= 1300


async def test_an_inbox_that_was_deleted_and_created_again_is_found_by_its_name(
    bench: Workbench, day: Day
) -> None:
    day.at(500, lambda: bench.service.store.inboxes.delete(bench.inbox_id))
    day.at(501, lambda: bench.service.put(INBOX, {}))
    events = await day.events(trigger(), until=900)

    assert events[0][1]["inbox_id"] not in ("", bench.inbox_id)
    assert events[0][0] < 600


async def test_a_paused_inbox_is_said_once_and_watched_on(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    inboxes = bench.service.store.inboxes
    day.at(500, lambda: inboxes.force(bench.inbox_id, "paused", "abandoned"))
    day.at(2000, lambda: inboxes.resume(bench.inbox_id))
    notices = await day.notices(trigger(), until=3000)

    assert lines(caplog) == [
        "INFO Inbox orders is active",
        "WARNING Inbox orders is paused (abandoned): new events are dropped until it is resumed",
        "INFO Inbox orders is active",
    ]
    assert [second for second in notices if 900 < second < 1900]


async def test_what_the_service_says_cannot_end_the_triggerer(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "\ud800\0\nERROR made up")
    await day.notices(trigger(), until=10)

    assert len(lines(caplog)) == 1
    assert r"paused (\ud800\x00\nERROR made up)" in lines(caplog)[0]


async def test_a_name_that_cannot_be_encoded_cannot_end_the_triggerer(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture
) -> None:
    assert await day.notices(trigger(inbox="orders\ud800\0"), until=10) == []

    assert r"Inbox orders\ud800\x00" in lines(caplog)[0]


EMPTY: frozenset[str] = frozenset()


@pytest.fixture
def schedule(fake_clock: FakeClock) -> NoticeSchedule:
    return NoticeSchedule(renotify_seconds=60)


def due_at(
    schedule: NoticeSchedule, fake_clock: FakeClock, listed: dict[float, frozenset[str]]
) -> list[float]:
    """The seconds at which a notice is due, of those at which something was listed."""
    seconds = []
    for second, available in listed.items():
        fake_clock.set(fake_clock.start + second)
        seconds += [second] if schedule.is_due(available) else []
    return seconds


def test_one_is_due_while_the_same_messages_and_more_of_them_are_there(
    schedule: NoticeSchedule, fake_clock: FakeClock
) -> None:
    listed = {0: frozenset("a"), 5: frozenset("a"), 10: frozenset("ab"), 59: frozenset("abc")}

    assert due_at(schedule, fake_clock, listed) == [0]


@pytest.mark.parametrize("available", [frozenset("a"), UNSEEN])
def test_another_is_due_when_the_same_messages_are_still_there(
    schedule: NoticeSchedule, fake_clock: FakeClock, available: frozenset[str]
) -> None:
    listed = dict.fromkeys(range(0, 200, 10), available)

    assert due_at(schedule, fake_clock, listed) == [0, 60, 120, 180]


def test_what_is_there_now_counts_from_its_own_notice(
    schedule: NoticeSchedule, fake_clock: FakeClock
) -> None:
    listed = {0: frozenset("a"), 60: frozenset("ab"), 65: frozenset("b")}

    assert due_at(schedule, fake_clock, listed) == [0, 60]


def test_messages_of_which_none_was_there_are_new(schedule: NoticeSchedule, fake_clock: FakeClock) -> None:
    assert due_at(schedule, fake_clock, {0: frozenset("ab"), 5: frozenset("c")}) == [0, 5]


def test_messages_that_were_gone_and_are_back_are_new(
    schedule: NoticeSchedule, fake_clock: FakeClock
) -> None:
    assert due_at(schedule, fake_clock, {0: frozenset("a"), 5: EMPTY, 10: frozenset("a")}) == [0, 10]


def test_none_is_due_for_an_empty_inbox(schedule: NoticeSchedule) -> None:
    assert not schedule.is_due(EMPTY)
    assert schedule.seconds_left() == math.inf


def test_the_time_of_the_next_notice_is_known(schedule: NoticeSchedule, fake_clock: FakeClock) -> None:
    schedule.is_due(frozenset("a"))
    fake_clock.advance(20)

    assert schedule.seconds_left() == 40
