"""Watching an inbox for notices goes on through all faults, and through all states of the inbox."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_workflow.dispatch import quarantine
from tests.unit.triggers.day import Day
from tests.unit.triggers.notices import lines, said, trigger
from tests.unit.workbench import INBOX, Workbench

__all__ = ["said"]


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
