"""The service accepts no calls for long: every trigger logs its own wait, and goes on after it."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from airflow_provider_workflow.client.call import Family
from airflow_provider_workflow.client.exchange import GATES
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import Workbench

GATHER_SECONDS = 2.0
"""How long the poller of event triggers waits before its first call."""


def event_trigger_stream() -> AsyncIterator[Any]:
    pytest.importorskip("airflow.triggers.shared_stream", reason="since Airflow 3.3")
    from airflow_provider_workflow.triggers.event_producer import InboxProducer

    return InboxProducer(WorkflowInboxEventTrigger("orders", wake_on_events=False)).open_stream()


TRIGGERS: dict[str, Callable[[], AsyncIterator[Any]]] = {
    "inbox": lambda: WorkflowInboxTrigger("orders", wake_on_events=False).run(),
    "inbox, long intervals": lambda: WorkflowInboxTrigger(
        "orders", poll_interval=3600, max_poll_interval=3600, wake_on_events=False
    ).run(),
    "notice": lambda: WorkflowInboxNoticeTrigger("orders", wake_on_events=False).run(),
    "event": event_trigger_stream,
}


@pytest.mark.parametrize("kind", TRIGGERS)
async def test_a_trigger_that_was_told_nothing_itself_logs_its_wait_and_the_error_after_five_minutes(
    kind: str, bench: Workbench, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    waits_first = GATHER_SECONDS if kind == "event" else 0
    GATES.close(WorkflowHook().settings, Family.INBOX, waits_first + 900)
    caplog.set_level(logging.INFO)
    async with aclosing(TRIGGERS[kind]()) as events:  # type: ignore[type-var]
        await anext(events)

    cause = "list_inboxes was not sent: the service accepts no inbox calls for"
    warning, error, over = (
        line for line in _lines(caplog) if not re.search(" is active|: waiting for", line)
    )
    assert warning == f"WARNING Inbox orders is unreachable; retrying: {cause} 900 s"
    assert re.fullmatch(
        rf"ERROR Inbox orders has been unreachable for [56] minutes; retrying: {cause} \d+ s", error
    )
    assert over == "INFO Inbox orders is reachable again"
    # 5, 10, 20, 40, 80, 160, 300 and 300 s.
    assert fake_clock.elapsed - waits_first == 915


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the triggers logged."""
    return [
        f"{each.levelname} {each.getMessage()}"
        for each in caplog.records
        if each.name.startswith("airflow_provider_workflow.triggers.")
    ]
