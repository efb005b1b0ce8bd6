"""The poll loop: intervals, faults, and long waits."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow.client.call import Family
from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    NotFoundError,
    ServerError,
    TransportError,
)
from airflow_provider_workflow.client.exchange import GATES
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from airflow_provider_workflow.triggers.polling import InboxHealth, Waits
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.loops import FakeWakeUps
from tests.unit.workbench import Workbench

log = logging.getLogger("tests.polling")
FAULT = ServerError("made up", status=503)
WRONG = AuthenticationError("wrong secret", status=401)


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


@pytest.fixture
def health(fake_clock: FakeClock) -> InboxHealth:
    return InboxHealth("orders", log)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(each.levelname, each.getMessage()) for each in caplog.records if each.name == log.name]


def meet(health: InboxHealth, clock: FakeClock, *outcomes: Exception | None) -> list[float]:
    """Let calls fail, or succeed where there is None; the pauses after the errors, which are waited for."""
    pauses = []
    for error in outcomes:
        if error is None:
            health.succeeded()
        else:
            pauses.append(health.failed(error))
            clock.advance(pauses[-1])
    return pauses


def test_the_pauses_of_a_series_grow_to_five_minutes(health: InboxHealth, fake_clock: FakeClock) -> None:
    assert meet(health, fake_clock, *[FAULT] * 9) == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_the_pauses_reset_after_an_answer(health: InboxHealth, fake_clock: FakeClock) -> None:
    assert meet(health, fake_clock, FAULT, FAULT, None, FAULT, WRONG) == [5, 10, 5, 10]


def test_an_error_is_logged_at_once_and_no_more_within_five_minutes(
    health: InboxHealth, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    meet(health, fake_clock, *[FAULT] * 6, None)

    assert lines(caplog) == [
        ("WARNING", "Inbox orders is unreachable; retrying: made up"),
        ("INFO", "Inbox orders is reachable again"),
    ]


def test_after_five_minutes_it_is_logged_once_more_with_the_cause_of_then(
    health: InboxHealth, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    meet(health, fake_clock, *[FAULT] * 6, *[TransportError("gone", sent=False)] * 20, None)

    assert lines(caplog) == [
        ("WARNING", "Inbox orders is unreachable; retrying: made up"),
        ("ERROR", "Inbox orders has been unreachable for 5 minutes; retrying: gone"),
        ("INFO", "Inbox orders is reachable again"),
    ]


def test_time_in_which_there_was_an_answer_does_not_count(
    health: InboxHealth, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(6):
        meet(health, fake_clock, FAULT, None)
        fake_clock.advance(60)

    assert [level for level, _ in lines(caplog)] == ["WARNING", "INFO"] * 6


def test_the_next_long_series_is_logged_again(
    health: InboxHealth, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    meet(health, fake_clock, *[FAULT] * 8, None, *[FAULT] * 8, None)

    assert [level for level, _ in lines(caplog)] == ["WARNING", "ERROR", "INFO"] * 2


def test_an_error_of_another_type_is_logged_too(
    health: InboxHealth, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    missing = NotFoundError("no such inbox", status=404)
    meet(health, fake_clock, FAULT, WRONG, WRONG, missing)

    assert lines(caplog) == [
        ("WARNING", "Inbox orders is unreachable; retrying: made up"),
        ("ERROR", "Inbox orders is unreachable until this is fixed: wrong secret"),
        ("ERROR", "Inbox orders is unreachable until this is fixed: no such inbox"),
    ]


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (AirflowException("The conn_id isn't defined"), "The conn_id isn't defined"),
        (ValueError("a\nb"), r"ValueError: a\nb"),
    ],
)
def test_an_error_is_one_line_with_a_traceback_if_it_does_not_explain_itself(
    error: Exception, cause: str, health: InboxHealth, caplog: pytest.LogCaptureFixture
) -> None:
    health.failed(error)

    assert lines(caplog) == [("ERROR", f"Inbox orders is unreachable until this is fixed: {cause}")]
    [record] = [each for each in caplog.records if each.name == log.name]
    assert bool(record.exc_info) is not isinstance(error, AirflowException)


@dataclass
class Options:
    poll_interval: float = 5
    max_poll_interval: float = 60
    inbox: str = "orders"
    workflow_conn_id: str = "workflow_default"
    wake_on_events: bool = True


async def test_the_waits_double_up_to_their_maximum(fake_clock: FakeClock) -> None:
    waits = Waits(Options(), None)
    for _ in range(6):
        await waits.wait()

    assert fake_clock.slept == [5, 10, 20, 40, 60, 60]


async def test_a_wake_up_ends_a_wait_after_its_first_second_and_resets_the_waits(
    fake_clock: FakeClock,
) -> None:
    wake_ups: Any = FakeWakeUps(False, True, False)
    waits = Waits(Options(), wake_ups)
    for _ in range(3):
        await waits.wait()

    assert fake_clock.slept == [1, 1, 1]
    assert wake_ups.waited == [4, 9, 4]


async def test_waits_begun_within_a_tick_of_each_other_end_together(fake_clock: FakeClock) -> None:
    for now in (1000.1, 1000.2):
        fake_clock.set(now)
        await Waits(Options(), None).wait()

    assert fake_clock.slept == [pytest.approx(5.15), pytest.approx(5.05)]


async def test_a_wait_has_a_maximum_and_a_minimum(fake_clock: FakeClock) -> None:
    waits = Waits(Options(poll_interval=20), None)
    await waits.wait(5, 12)
    await waits.wait(5, 2)

    assert fake_clock.slept == [12, 5]


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
