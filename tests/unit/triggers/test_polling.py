"""The poll loop: intervals, faults, and long waits."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    ServerError,
)
from airflow_provider_workflow.triggers.polling import InboxHealth, Waits
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.loops import FakeWakeUps

log = logging.getLogger("tests.polling")
FAULT = ServerError("made up", status=503)
WRONG = AuthenticationError("wrong secret", status=401)


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


async def test_a_wake_up_ends_a_wait_after_its_first_second_and_resets_the_waits(
    fake_clock: FakeClock,
) -> None:
    wake_ups: Any = FakeWakeUps(False, True, False)
    waits = Waits(Options(), wake_ups)
    for _ in range(3):
        await waits.wait()

    assert fake_clock.slept == [1, 1, 1]
    assert wake_ups.waited == [4, 9, 4]
