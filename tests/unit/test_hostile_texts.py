"""A string of the service adds no line to a log and no escape: neither in a log record nor in an error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException

from airflow_provider_workflow.client.errors import GuessRejectedError
from airflow_provider_workflow.dispatch.quarantine import report
from airflow_provider_workflow.dispatch.results import Counts
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.operators import manage_inbox
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator
from airflow_provider_workflow.triggers.inbox import lease_of
from airflow_provider_workflow.triggers.polling import InboxHealth
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.sensors.tasks import Task
from tests.unit.triggers.loops import fire, trigger
from tests.unit.workbench import INBOX, Workbench

HOSTILE = "abandoned\n2026-01-01 ERROR forged\r\x1b[31mred\x1b[0m\x07\u2028\x00"
SEEN = "abandoned"


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """All that a test makes the package log and raise; checked when it ends."""
    caplog.set_level(logging.DEBUG, logger="airflow_provider_workflow")
    raised: list[str] = []
    yield raised
    ours = [each for each in caplog.get_records("call") if each.name.startswith("airflow_provider_workflow")]
    texts = raised + [each.getMessage() for each in ours]
    assert any(SEEN in text for text in texts), texts
    assert [text for text in texts if not text.isprintable()] == []


def force(bench: Workbench, status: str) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, status, HOSTILE)


def ensure(**arguments: Any) -> Any:
    inbox = {"name": INBOX, "app_key": "app", "action_key": "action"}
    return WorkflowEnsureInboxOperator(task_id="t", **inbox, **arguments).execute({})


def fails(said: list[str], call: Callable[[], Any]) -> None:
    with pytest.raises(AirflowException) as caught:
        call()
    said.append(str(caught.value))


@pytest.mark.parametrize("on_paused", ["fail", "wait"])
def test_why_an_inbox_is_paused_as_a_sensor_says_it(
    bench: Workbench, said: list[str], on_paused: str
) -> None:
    force(bench, "paused")
    task = Task(bench, on_paused=on_paused)
    if on_paused == "wait":
        task.execute()
    else:
        fails(said, task.execute)


def test_why_an_inbox_failed_as_a_sensor_says_it(bench: Workbench, said: list[str]) -> None:
    force(bench, "initialization_failure")
    fails(said, Task(bench).execute)


@pytest.mark.parametrize("status", ["paused", "initialization_failure"])
async def test_why_an_inbox_cannot_be_leased_as_a_trigger_hands_it_to_its_sensor(
    bench: Workbench, fake_clock: FakeClock, said: list[str], status: str
) -> None:
    force(bench, status)
    event = await fire(trigger())

    said.append(event["reason"])
    fails(said, lambda: lease_of(INBOX, {**event, "reason": HOSTILE}))


async def test_why_an_inbox_is_paused_as_a_waiting_trigger_says_it(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    def resume() -> None:
        bench.service.store.inboxes.resume(bench.inbox_id)
        bench.put("a")

    force(bench, "paused")
    fake_clock.then(nothing, resume)
    await fire(trigger(on_paused="wait"))


def test_why_an_inbox_is_paused_or_failed_as_a_watcher_says_it(said: list[str]) -> None:
    health = InboxHealth(INBOX, logging.getLogger("airflow_provider_workflow.test"))
    health.seen({"status": "paused", "paused_reason": HOSTILE})
    health.seen({"status": HOSTILE})
    fails(said, lambda: health.seen({"status": "initialization_failure", "paused_reason": HOSTILE}))


def ensured_inbox(bench: Workbench, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    inbox = {**bench.hook.get_inbox(INBOX), "paused_reason": HOSTILE, **fields}
    monkeypatch.setattr(manage_inbox, "ensure_inbox", lambda *_: inbox)


def test_why_an_inbox_is_paused_or_failed_as_the_operator_that_ensures_it_says_it(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    ensured_inbox(bench, monkeypatch, status="paused")
    ensure()
    ensured_inbox(bench, monkeypatch, status="initialization_failure", name=HOSTILE)
    fails(said, ensure)
    fails(said, lambda: ensure(recreate_failed=True))


def test_what_is_said_of_an_inbox_that_has_the_name(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    subscription: Any = {"app_key": "app", "action_key": "action", "inputs": {"a": HOSTILE}}
    inbox = {"id": HOSTILE, "name": INBOX, "status": "active", "subscription": subscription}
    monkeypatch.setattr(WorkflowHook, "list_inboxes", lambda *_, **__: [inbox])
    fails(said, lambda: manage_inbox.ensure_inbox(bench.hook, INBOX, subscription, None))


@pytest.mark.parametrize("operator", [WorkflowPauseInboxOperator, WorkflowResumeInboxOperator])
def test_the_state_of_an_inbox_as_the_operators_that_change_it_say_it(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, said: list[str], operator: Any
) -> None:
    inbox = {**bench.hook.get_inbox(INBOX), "status": HOSTILE}
    for name in ("pause_inbox", "resume_inbox"):
        monkeypatch.setattr(WorkflowHook, name, lambda *_: inbox)
    operator(task_id="t", inbox=INBOX).execute({})
    monkeypatch.undo()


def test_why_an_inbox_cannot_be_resumed(bench: Workbench, said: list[str]) -> None:
    force(bench, "initialization_failure")
    fails(said, lambda: WorkflowResumeInboxOperator(task_id="t", inbox=INBOX).execute({}))


@pytest.mark.parametrize("on_rejected", ["fail", "skip"])
def test_why_a_guess_is_rejected(
    connected: Any, monkeypatch: pytest.MonkeyPatch, said: list[str], on_rejected: str
) -> None:
    def reject(*_: Any) -> None:
        raise GuessRejectedError(f"guess was answered with 400: {SEEN}", status=400, detail=HOSTILE)

    monkeypatch.setattr(WorkflowHook, "guess", reject)
    with pytest.raises((AirflowSkipException, AirflowFailException)) as caught:
        WorkflowGuessOperator(task_id="t", description="text", on_rejected=on_rejected).execute({})
    said.append(str(caught.value))


def test_the_id_of_a_quarantined_message(connected: Any) -> None:
    report([{"id": HOSTILE, "status": "quarantined"}], inbox=INBOX, conn_id="workflow_default")


def test_the_ids_of_refused_messages(said: list[str]) -> None:
    counts = Counts()
    counts.reject(HOSTILE, HOSTILE)
    said += [counts.rejected_text(), *counts.result["rejected"]["ids"]]
