"""Callbacks of watchers: the triggerer imports them, calls them beside its event loop, and goes on."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from airflow.sdk.definitions.deadline import AsyncCallback, SyncCallback

from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.dispatch.alerts import call_in_trigger
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.options import check_trigger_callbacks
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit import alerting
from tests.unit.alarms import alarms, another_process, crash, variables
from tests.unit.alerting import AsyncNotifier, Notifier
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.day import Day, day
from tests.unit.triggers.notices import said, trigger
from tests.unit.triggers.triggerer import event_trigger
from tests.unit.workbench import INBOX, Workbench

__all__ = ["day", "said", "variables"]

FUNCTION = "tests.unit.alerting.function"
MESSAGES = [{"id": "a", "created_at": "2026-01-01T00:00:00Z", "message_attributes": {"lease_count": 5}}]


@pytest.fixture(autouse=True)
def calls() -> list[Any]:
    alerting.calls.clear()
    alerting.threads.clear()
    return alerting.calls


async def call(*callbacks: Any) -> None:
    stored = check_trigger_callbacks("on_quarantined", list(callbacks))
    await call_in_trigger(str(stored), INBOX, "an id", "workflow_default", MESSAGES)


async def test_a_watcher_tells_of_a_quarantined_message_once(
    bench: Workbench, clock: ManualClock, day: Day, calls: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    crash(bench, clock, "a")
    callback = AsyncCallback(alerting.coroutine, kwargs={"to": "on call"})
    for _ in range(2):
        another_process()
        await day.notices(trigger(on_quarantined=callback), until=day.second + 1000)

    [(to, context)] = calls
    assert to == "on call"
    assert context == {
        "workflow": {
            "event": "quarantined",
            "inbox": INBOX,
            "inbox_id": bench.inbox_id,
            "conn_id": "workflow_default",
            "count": 1,
            "messages": [
                {
                    "id": "a",
                    "created_at": context["workflow"]["messages"][0]["created_at"],
                    "delivery_count": 5,
                    "reason": None,
                    "cause": None,
                    "run_id": None,
                }
            ],
            "dead_letter_dag_id": None,
        }
    }
    assert len(alarms(caplog)) == 1


@pytest.mark.since(3, 3, "the acknowledging of asset events")
async def test_the_poller_of_event_watchers_tells_too(
    bench: Workbench, clock: ManualClock, triggerer: Any, calls: list[Any]
) -> None:
    crash(bench, clock, "a")
    triggerer.start(event_trigger(on_quarantined=AsyncCallback(AsyncNotifier)))
    await triggerer.work(30)
    await quarantine.flush()

    assert calls == ["async quarantined"]


async def test_a_notifier_that_can_is_awaited_and_renders_its_template(calls: list[Any]) -> None:
    text = "{{ workflow['count'] }} in {{ workflow.inbox }}"
    await call(AsyncCallback(AsyncNotifier, kwargs={"text": text}))

    assert calls == ["async 1 in orders"]


@pytest.mark.parametrize(
    ("callback", "told"),
    [
        (AsyncCallback(Notifier), "quarantined"),
        ("tests.unit.alerting.Notifier", "quarantined"),
        (SyncCallback(alerting.function, kwargs={"to": "me"}), "me"),
    ],
)
async def test_what_may_block_is_called_in_a_thread(callback: Any, told: str, calls: list[Any]) -> None:
    await call(callback)

    assert calls == [told]
    assert alerting.threads != ["MainThread"]


async def test_a_callback_that_fails_is_one_line_and_the_others_are_called(
    calls: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    await call("tests.unit.alerting.fails", "tests.unit.missing.function", AsyncCallback(AsyncNotifier))

    assert calls == ["async quarantined"]
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING] == [
        "Inbox orders: a callback of on_quarantined failed: RuntimeError",
        "Inbox orders: a callback of on_quarantined failed: ModuleNotFoundError",
    ]
    assert "a secret" not in caplog.text


async def test_a_callback_that_never_ends_is_ended_after_a_minute(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await call("tests.unit.alerting.sleeps_for_an_hour")

    assert fake_clock.slept == [3600]
    assert "a callback of on_quarantined failed: TimeoutError" in caplog.text


def test_airflow_stores_one_string_that_comes_back_as_it_was() -> None:
    callbacks = [AsyncCallback(AsyncNotifier, kwargs={"text": "x"}), FUNCTION]
    path, kwargs = WorkflowInboxNoticeTrigger("orders", on_quarantined=callbacks).serialize()

    assert json.loads(kwargs["on_quarantined"]) == [
        {"path": "tests.unit.alerting.AsyncNotifier", "kwargs": {"text": "x"}},
        {"path": FUNCTION, "kwargs": {}},
    ]
    assert WorkflowInboxNoticeTrigger(**kwargs).serialize() == (path, kwargs)


@pytest.mark.parametrize(
    ("callback", "text"),
    [
        (alerting.function, r"on_quarantined must be AsyncCallback\(function or notifier class"),
        (Notifier(), r"on_quarantined must be AsyncCallback\("),
        (SyncCallback(alerting.function, executor="local"), r"on_quarantined must be AsyncCallback\("),
        ("function", "on_quarantined cannot be 'function': the triggerer imports it"),
        ("unusual_prefix_a1b2_dags.tell", "not of a DAG file"),
        (SyncCallback(lambda: None), "at the top of a module"),
        (AsyncCallback(AsyncNotifier, kwargs={"text": object()}), "has arguments that Airflow cannot store"),
    ],
)
def test_a_wrong_callback_is_named_when_the_dag_is_parsed(callback: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        WorkflowInboxNoticeTrigger("orders", on_quarantined=callback)
