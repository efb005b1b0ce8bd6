"""The doorbell of an inbox: it rings while there is something to lease, and never leases to find out."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import Asset, AssetWatcher
from airflow.triggers.base import BaseEventTrigger

from airflow_provider_workflow import quarantine
from airflow_provider_workflow.client.events import _streams
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from airflow_provider_workflow.triggers.probing import MOST_PAGES
from tests.unit.counted import Counted
from tests.unit.triggers.day import Day
from tests.unit.workbench import INBOX, Workbench


class Subclass(WorkflowInboxNoticeTrigger):
    """A trigger of somebody else's."""


def trigger(**arguments: Any) -> WorkflowInboxNoticeTrigger:
    return WorkflowInboxNoticeTrigger(**{"inbox": INBOX, **arguments})


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the trigger itself logged."""
    names = ("triggers.notice", "quarantine")
    return [f"{each.levelname} {each.getMessage()}" for each in caplog.records if each.name.endswith(names)]


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    quarantine._reported.clear()
    return caplog


# What it is


def test_it_comes_back_from_what_it_serialises() -> None:
    given = {
        "inbox": "orders",
        "workflow_conn_id": "other",
        "renotify_seconds": 30,
        "poll_interval": 2,
        "max_poll_interval": 20.5,
        "wake_on_events": False,
    }
    path, kwargs = WorkflowInboxNoticeTrigger(**given).serialize()

    assert path == "airflow_provider_workflow.triggers.notice.WorkflowInboxNoticeTrigger"
    assert kwargs == given
    assert WorkflowInboxNoticeTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


def test_a_subclass_serialises_as_itself() -> None:
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
        ({"inbox": ""}, "inbox must be a text that is not empty"),
        ({"inbox": None}, "inbox must be a text that is not empty"),
        ({"workflow_conn_id": " "}, "workflow_conn_id must be a text that is not empty"),
        ({"renotify_seconds": 4.9}, "renotify_seconds must be a number of seconds from 5 on, not 4.9"),
        ({"renotify_seconds": "60"}, "renotify_seconds must be a number of seconds from 5 on, not '60'"),
        ({"renotify_seconds": float("inf")}, "renotify_seconds must be a number of seconds from 5 on"),
        ({"renotify_seconds": True}, "renotify_seconds must be a number of seconds from 5 on, not True"),
        ({"poll_interval": 0}, "poll_interval must be a number of seconds above 0, not 0"),
        ({"poll_interval": 90}, r"poll_interval \(90 s\) must be at most max_poll_interval \(60 s\)"),
        ({"wake_on_events": "False"}, "wake_on_events must be True or False, not 'False'"),
    ],
)
def test_a_wrong_argument_is_named_where_the_dag_is_parsed(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}"):
        trigger(**arguments)


async def test_in_a_triggerer_a_wrong_argument_is_the_one_error_that_it_survives() -> None:
    with pytest.raises(TypeError, match="renotify_seconds"):
        trigger(renotify_seconds=1)


# When it rings


async def test_its_event_names_the_inbox_and_carries_no_message(bench: Workbench, day: Day) -> None:
    bench.put("a", payload={"secret": "of a customer"})

    assert await day.events(trigger(), until=1) == [
        (
            0,
            {
                "inbox": "orders",
                "inbox_id": bench.inbox_id,
                "workflow_conn_id": "workflow_default",
                "certain": True,
            },
        )
    ]


async def test_it_never_leases(bench: Workbench, day: Day) -> None:
    bench.put("a", "b")
    await day.rings(trigger(), until=600)

    assert bench.states == {"a": "available", "b": "available"}
    operations = {each.operation for each in bench.service.requests}
    assert operations == {"token", "list_inboxes", "get_inbox", "list_messages"}


async def test_it_keeps_silent_while_there_is_nothing(bench: Workbench, day: Day) -> None:
    assert await day.rings(trigger(), until=3600) == []


async def test_it_rings_when_a_message_is_announced(bench: Workbench, day: Day) -> None:
    day.put(100.5, "a")

    assert await day.rings(trigger(), until=150) == [100.5]


async def test_it_rings_for_a_message_that_nobody_announced_at_the_next_look(
    bench: Workbench, day: Day
) -> None:
    day.put(16, "a", told=False)

    assert await day.rings(trigger(), until=60) == [35]


async def test_it_rings_for_what_was_there_before_it_began(bench: Workbench, day: Day) -> None:
    bench.put("a")

    assert await day.rings(trigger(), until=30) == [0]


async def test_it_rings_once_for_a_burst(bench: Workbench, day: Day) -> None:
    for n in range(200):
        day.put(100 + n / 50, str(n))
    day.take(107)

    assert await day.rings(trigger(), until=1000) == [100]


async def test_it_rings_again_while_messages_remain_and_stops_when_they_are_gone(
    bench: Workbench, day: Day
) -> None:
    day.put(100, "a", "b")
    day.take(250)

    assert await day.rings(trigger(renotify_seconds=60), until=1000) == [100, 160, 220]


async def test_it_rings_at_once_for_what_comes_after_the_inbox_was_drained(
    bench: Workbench, day: Day
) -> None:
    day.put(100, "a", "b")
    day.take(103)
    day.put(108, "c")

    assert await day.rings(trigger(), until=150) == [100, 108]


async def test_rings_are_five_seconds_apart_however_fast_messages_come_and_go(
    bench: Workbench, day: Day
) -> None:
    for second in range(100, 200):
        day.put(second, f"{second}")
        day.take(second + 0.5)
        day.put(second + 0.6, f"{second} again")
    rings = await day.rings(trigger(), until=300)

    assert len(rings) >= 15
    assert min(later - earlier for earlier, later in pairwise(rings)) >= 5


async def test_a_lease_that_ran_out_rings_though_nobody_tells(bench: Workbench, day: Day) -> None:
    day.put(100, "a", "b")
    day.take(103, seconds=300, acknowledge=False)
    rings = await day.rings(trigger(max_poll_interval=60), until=500)

    assert rings[0] == 100
    assert 403 <= rings[1] <= 463
    assert bench.states == {"a": "available", "b": "available"}


async def test_it_works_without_the_event_stream(bench: Workbench, day: Day) -> None:
    day.put(100, "a")

    assert await day.rings(trigger(wake_on_events=False), until=140) == [135]
    assert day.listeners == 0


async def test_its_looks_are_further_and_further_apart_while_nothing_happens(
    bench: Workbench, day: Day
) -> None:
    await day.rings(trigger(), until=275)

    # At 0, 5, 15, 35, 75, 135, 195 and 255 s.
    assert len(day.pages) == 8


async def test_a_stream_that_never_stops_speaking_makes_it_look_once_a_second_at_most(
    bench: Workbench, day: Day
) -> None:
    for n in range(1000):
        day.at(n / 100, lambda: None, told=True)
    await day.rings(trigger(), until=11)

    assert sum(day.pages) <= 11


# In an inbox of many pages


@pytest.fixture
def crowd(bench: Workbench) -> None:
    """5,000 messages that cannot be leased, half of them leased, half of them quarantined."""
    leases = bench.service.store.leases
    for group in range(50):
        bench.put(*[f"{group}-{n}" for n in range(100)], lease_count=4 * (group % 2))
        lease_id = leases.lease(bench.inbox_id, 3600, 100)["lease_id"]
        if group % 2:
            leases.release(bench.inbox_id, lease_id)


@pytest.mark.usefixtures("crowd")
async def test_among_five_thousand_it_looks_at_ten_pages_at_most(bench: Workbench, day: Day) -> None:
    # It rings in doubt as it begins, as it cannot know; and for the new one when it is announced.
    day.put(700.5, "new")
    events = await day.events(trigger(), until=720)

    assert [(second, payload["certain"]) for second, payload in events] == [(0, False), (700.5, True)]
    assert max(day.pages) == MOST_PAGES
    assert bench.service.count("lease") == 0


@pytest.mark.usefixtures("crowd")
async def test_among_five_thousand_it_rings_in_doubt_for_what_it_does_not_see_at_once(
    bench: Workbench, day: Day
) -> None:
    # Nothing is known of the order of a list: here the new one stands in the middle.
    middle = list(bench.service.store.messages.mailbox(bench.inbox_id).live.values())[1000]
    day.at(700.5, lambda: setattr(middle, "status", "available"), told=True)
    events = await day.events(trigger(), until=1500)

    assert [(second, payload["certain"]) for second, payload in events][:2] == [(0, False), (700.5, False)]
    assert [second for second, payload in events if payload["certain"]], "it is seen in its turn"


@pytest.mark.usefixtures("crowd")
async def test_among_five_thousand_there_is_no_storm_of_rings_in_doubt(bench: Workbench, day: Day) -> None:
    for second in range(1, 100):
        day.at(second, lambda: None, told=True)

    assert await day.rings(trigger(renotify_seconds=20), until=101) == [0, 20, 40, 60, 80, 100]


@pytest.mark.usefixtures("crowd")
async def test_among_five_thousand_it_rings_in_doubt_for_what_came_while_it_was_out_of_reach(
    bench: Workbench, day: Day
) -> None:
    day.at(700, lambda: bench.service.fault("status", status=503, times=None))
    day.at(800, bench.service.emulator.faults.clear)
    events = await day.events(trigger(), until=1000)

    assert [payload["certain"] for _, payload in events] == [False, False]
    assert events[1][0] > 800


async def test_each_quarantined_message_is_reported_once(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture, counted: Counted
) -> None:
    bench.put("a", "b", lease_count=4)
    bench.hook.release_messages(INBOX, bench.lease().lease_id)
    await day.rings(trigger(), until=600)

    text = "is in quarantine; it is handed out no more and starts no run"
    assert [line for line in lines(caplog) if "quarantine" in line] == [
        f"ERROR Inbox orders: message {each} {text}" for each in ("a", "b")
    ]
    assert counted.totals["quarantined"] == 2


async def test_its_rings_are_counted(bench: Workbench, day: Day, counted: Counted) -> None:
    bench.put("a")
    await day.rings(trigger(), until=70)

    assert counted.totals == {"rung": 2}
    assert counted.tags == [{"inbox": "orders", "conn_id": "workflow_default"}]


# Faults, and the states of an inbox


@pytest.mark.parametrize(
    "fault",
    [{"kind": "status", "status": 503}, {"kind": "drop"}, {"kind": "not_json"}, {"kind": "wrong_type"}],
)
async def test_a_fault_that_passes_is_survived_and_what_came_meanwhile_is_rung_for(
    bench: Workbench, day: Day, fault: dict[str, Any]
) -> None:
    def begin() -> None:
        bench.service.fault(**fault, times=None)

    day.at(50, begin)
    day.put(60, "a", told=False)
    day.at(90, bench.service.emulator.faults.clear)
    rings = await day.rings(trigger(), until=200)

    assert rings
    assert rings[0] < 180


async def test_each_change_of_its_fortunes_is_one_line_and_no_poll_is(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture
) -> None:
    day.at(600, lambda: bench.service.fault("status", status=503, times=None))
    day.at(700, bench.service.emulator.faults.clear)
    await day.rings(trigger(), until=3600)

    assert [line.split(";")[0] for line in lines(caplog)] == [
        "INFO Inbox orders is active",
        "WARNING Inbox orders is out of reach",
        "INFO Inbox orders is within reach again",
    ]


async def test_five_minutes_of_faults_are_said_once_with_the_cause(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture
) -> None:
    day.at(600, lambda: bench.service.fault("status", status=503, times=None, detail="made up"))
    await day.rings(trigger(), until=7200)

    errors = [line for line in lines(caplog) if line.startswith("ERROR")]
    assert len(errors) == 1
    assert "503 (error): made up" in errors[0]


@pytest.mark.parametrize(
    ("mishap", "cause"),
    [
        ("wrong secret", "401 (invalid_client): Unknown client or wrong secret."),
        ("no inbox", "there is no inbox with the name or id 'orders'; create it first"),
        ("no connection", "workflow_default"),
        ("bad connection", "password is missing (set the client secret as Password)"),
        ("broken inbox", "failed to initialise (subscribe_failed). Delete it and create it again."),
        ("mistake of our own", "KeyError: 'made up'"),
    ],
)
async def test_a_fault_that_somebody_has_to_mend_does_not_end_it_nor_make_it_spin(
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
    assert await day.rings(trigger(), until=3600) == []

    said = [line for line in lines(caplog) if not line.startswith("INFO")]
    assert [line.split()[0] for line in said] == ["ERROR", "ERROR"], "at once, and after five minutes"
    assert all(cause in line for line in said)
    assert len(bench.service.requests) < 200
    assert bench.service.client_secret not in caplog.text
    assert day.slept[-1] == 300


def _mistake(*_: Any, **__: Any) -> None:
    raise KeyError("made up")


async def _no_connection(conn_id: str) -> Any:
    raise AirflowNotFoundException(f"The conn_id `{conn_id}` isn't defined")


async def test_a_connection_that_is_mended_is_used(
    bench: Workbench, day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, right = "AIRFLOW_CONN_WORKFLOW_DEFAULT", bench.service.connection_json()
    monkeypatch.setenv(name, right.replace(bench.service.client_secret, "another-secret"))
    bench.put("a")
    day.at(1000, lambda: monkeypatch.setenv(name, right))
    rings = await day.rings(trigger(), until=1400)

    assert rings
    assert 1000 < rings[0] <= 1300


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
    rings = await day.rings(trigger(), until=3000)

    assert lines(caplog) == [
        "INFO Inbox orders is active",
        "INFO Inbox orders is paused (abandoned): what it holds is still announced, new events are dropped"
        " until it is resumed",
        "INFO Inbox orders is active",
    ]
    assert [second for second in rings if 900 < second < 1900]


async def test_what_the_service_says_cannot_end_the_triggerer(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture
) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "\ud800\0\nERROR made up")
    await day.rings(trigger(), until=10)

    assert len(lines(caplog)) == 1
    assert r"paused (\ud800\x00\nERROR made up)" in lines(caplog)[0]


async def test_a_name_that_cannot_be_encoded_cannot_end_the_triggerer(bench: Workbench, day: Day) -> None:
    waiting = trigger(inbox="orders\ud800\0")
    payload = waiting._event(bench.inbox_id, certain=True).payload

    assert payload["inbox"] == r"orders\ud800\x00"


async def test_a_service_that_keeps_it_waiting_counts_as_out_of_reach(
    bench: Workbench, day: Day, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest: list[float] = []

    async def wait_for(answer: Any, seconds: float) -> Any:
        longest.append(seconds)
        if len(longest) == 2:
            answer.close()
            raise asyncio.TimeoutError
        return await answer

    monkeypatch.setattr(day, "wait_for", wait_for, raising=False)
    bench.put("a")

    assert await day.rings(trigger(), until=30) == [5]
    assert set(longest) == {300}
    assert (
        "WARNING Inbox orders is out of reach; trying on: the service gave no answer within 300 s"
        in (lines(caplog)[1])
    )


async def test_the_end_of_the_trigger_closes_its_stream_and_its_session(bench: Workbench, day: Day) -> None:
    bench.put("a")
    day.ends_at = 100
    async with aclosing(trigger().run()) as events:  # type: ignore[type-var]
        await anext(events)
        assert day.listeners == 1

    assert day.listeners == 0


async def test_a_trigger_that_is_cancelled_while_it_looks_ends(bench: Workbench, day: Day) -> None:
    bench.service.fault("hold", operation="list_messages")
    running = asyncio.ensure_future(day.rings(trigger(), until=100))
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
        (stream,) = _streams[asyncio.get_running_loop()].values()
        assert len(stream.bells) == 2
    finally:
        for run in runs:
            await run.aclose()  # type: ignore[attr-defined]
