"""What a task says of an inbox that is paused."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_workflow.client.errors import InboxPausedError
from airflow_provider_workflow.dispatch.lease import lease_once, log_paused
from tests.unit.workbench import INBOX, Workbench


def look(bench: Workbench) -> None:
    """As a sensor does that waits for a paused inbox."""
    try:
        lease_once(bench.hook, bench.inbox_id, 100, 300, INBOX)
    except InboxPausedError as paused:
        log_paused(bench.hook, INBOX, paused.paused_reason)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name.endswith(".lease")]


def test_a_pause_is_said_once_with_each_reason_and_once_when_it_is_over(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    inboxes = bench.service.store.inboxes
    for reason in ("user", "user", "abandoned\nINFO fine"):
        inboxes.force(bench.inbox_id, "paused", reason)
        look(bench)
        look(bench)
    inboxes.force(bench.inbox_id, "active")
    look(bench)
    look(bench)

    assert lines(caplog) == [
        "Inbox orders is paused: user",
        r"Inbox orders is paused: abandoned\nINFO fine",
        "Inbox orders is no longer paused",
    ]


def test_a_paused_inbox_that_still_hands_out_messages_is_paused_still(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")
    look(bench)
    bench.put("a")
    look(bench)
    look(bench)

    assert lines(caplog) == ["Inbox orders is paused: user"]


def test_one_task_says_it_whatever_another_said(bench: Workbench, caplog: pytest.LogCaptureFixture) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "user")
    look(bench)
    bench.hook = type(bench.hook)()
    look(bench)

    assert lines(caplog) == ["Inbox orders is paused: user"] * 2
