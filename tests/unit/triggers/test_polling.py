"""Faults: what is said of a series of them, and how watchers outlast those that tasks may fail of."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    NotFoundError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_workflow.triggers.polling import Faults, poll, watch_forever
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.loops import FakeWakeUps

log = logging.getLogger("tests.patience")
FAULT = ServerError("made up", status=503)


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(each.levelname, each.getMessage()) for each in caplog.records if each.name == log.name]


class Asked:
    """Answers with each of these in turn, an exception by raising it."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def __call__(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Options:
    poll_interval: float
    max_poll_interval: float
    inbox: str = "orders"
    wake_on_events: bool = True


async def ask(*answers: Any, interval: float = 60, faults: Faults | None = None) -> Any:
    return await poll(Asked(*answers), None, Options(interval, interval), faults or Faults("orders", log))


async def test_wake_ups_do_not_shorten_the_pauses_of_a_series_of_faults(fake_clock: FakeClock) -> None:
    wake_ups: Any = FakeWakeUps(True, True, True)
    await poll(Asked(FAULT, FAULT, FAULT, "answer"), wake_ups, Options(10, 300), Faults("orders", log))

    # 10, 20 and 40 s, of which 5 s cannot be ended by a wake-up.
    assert wake_ups.waited == [5, 15, 35]


async def test_a_fault_is_said_at_once_and_no_more_within_five_minutes(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(*[FAULT] * 5, "answer")

    assert lines(caplog) == [
        ("WARNING", "Inbox orders is unreachable; retrying: made up"),
        ("INFO", "Inbox orders is reachable again"),
    ]


async def test_after_five_minutes_it_is_said_once_more_with_the_cause_of_then(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(*[FAULT] * 5, *[TransportError("gone", sent=False)] * 20, "answer")

    assert lines(caplog) == [
        ("WARNING", "Inbox orders is unreachable; retrying: made up"),
        ("ERROR", "Inbox orders has been unreachable for 5 minutes; retrying: gone"),
        ("INFO", "Inbox orders is reachable again"),
    ]


async def test_time_in_which_there_was_an_answer_does_not_count(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(*[FAULT, None] * 6, "answer")

    assert [level for level, _ in lines(caplog)] == ["WARNING", "INFO"] * 6


async def test_the_next_long_series_is_said_again(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(*[FAULT] * 8, None, *[FAULT] * 8, "answer")

    assert [level for level, _ in lines(caplog)] == ["WARNING", "ERROR", "INFO"] * 2


async def test_there_is_no_line_for_a_poll_that_finds_nothing(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(*[None] * 50, "answer")

    assert lines(caplog) == []


class Watch:
    """
    A watch that yields, asks and fails as it is told, and is counted.

    :param acts: for each beginning: exceptions are raised, ``answer`` and ``fault`` are answers of the
        service, and any other text is yielded.
    """

    def __init__(self, *acts: list[Any]) -> None:
        self.acts = list(acts)
        self.closed = 0

    async def __call__(self, faults: Faults) -> AsyncGenerator[str, None]:
        try:
            for act in self.acts.pop(0):
                if isinstance(act, Exception):
                    raise act
                if act == "answer":
                    faults.over()
                else:
                    yield act
        finally:
            self.closed += 1


class Ended(BaseException):
    """Ends a watch that goes on for ever."""


async def persist(fake_clock: FakeClock, watch: Watch) -> list[str]:
    found: list[str] = []

    def end(_: float) -> None:
        if not watch.acts:
            raise Ended

    fake_clock.meanwhile = end
    try:
        async for each in watch_forever(watch, inbox="orders", log=log):
            found.append(each)
    except Ended:
        return found
    raise AssertionError("the watch ended by itself")


WRONG = AuthenticationError("wrong secret", status=401)


async def test_a_watch_outlasts_what_waiting_does_not_cure_with_growing_pauses(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    assert await persist(fake_clock, Watch(*[[WRONG]] * 9, ["answer", "news"])) == ["news"]
    assert fake_clock.slept == [5, 10, 20, 40, 80, 160, 300, 300, 300, 5]
    assert lines(caplog) == [
        ("ERROR", "Inbox orders is unreachable until this is fixed: wrong secret"),
        ("ERROR", "Inbox orders has been unreachable for 5 minutes; retrying: wrong secret"),
        ("INFO", "Inbox orders is reachable again"),
    ]


async def test_the_pauses_begin_anew_after_an_answer(fake_clock: FakeClock) -> None:
    await persist(fake_clock, Watch([WRONG], [WRONG], ["answer", WRONG], [WRONG]))

    assert fake_clock.slept == [5, 10, 5, 10]


async def test_a_watch_that_ends_is_begun_again_and_closed_each_time(fake_clock: FakeClock) -> None:
    watch = Watch(["one"], ["two", WRONG], ["three"])

    assert await persist(fake_clock, watch) == ["one", "two", "three"]
    assert watch.closed == 3


async def test_who_leaves_a_watch_closes_it(fake_clock: FakeClock) -> None:
    watch = Watch(["one", "two"])
    async with aclosing(watch_forever(watch, inbox="orders", log=log)) as found:
        async for _ in found:
            break

    assert watch.closed == 1


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (AirflowException("The conn_id isn't defined"), "The conn_id isn't defined"),
        (ValueError("a\nb"), r"ValueError: a\nb"),
    ],
)
async def test_whatever_it_fails_of_is_named_in_one_line(
    error: Exception, cause: str, fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await persist(fake_clock, Watch([error]))

    assert lines(caplog) == [("ERROR", f"Inbox orders is unreachable until this is fixed: {cause}")]
    [record] = [each for each in caplog.records if each.name == log.name]
    assert bool(record.exc_info) is not isinstance(error, AirflowException)


async def test_what_is_to_be_fixed_is_said_once_for_each_kind_and_series(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    missing = NotFoundError("no such inbox", status=404)
    await persist(fake_clock, Watch([FAULT], [WRONG], [missing], [WRONG], ["answer", WRONG]))

    assert [text.rpartition(": ")[2] for _, text in lines(caplog)] == [
        "made up",
        "wrong secret",
        "no such inbox",
        "Inbox orders is reachable again",
        "wrong secret",
    ]


async def test_a_series_goes_on_from_the_watch_to_what_it_asks(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    faults = Faults("orders", log)
    faults.met(WRONG)
    await ask(FAULT, "answer", faults=faults)

    assert [level for level, _ in lines(caplog)] == ["ERROR", "INFO"]


async def test_a_long_wait_is_logged_once_in_a_series_and_lasts_until_calls_are_accepted(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    closed = RateLimitError("too many", status=429, retry_after=240.0)
    await ask(FAULT, closed, closed, "answer", interval=3600)

    assert lines(caplog)[:2] == [
        ("WARNING", "Inbox orders is unreachable; retrying: made up"),
        ("WARNING", "Inbox orders is unreachable; retrying in 240 s: too many"),
    ]
    assert [level for level, _ in lines(caplog)] == ["WARNING", "WARNING", "ERROR", "INFO"]
    assert fake_clock.slept == [300, 240, 240]


async def test_a_wait_of_a_minute_is_a_fault_like_any_other(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(RateLimitError("too many", status=429, retry_after=60.0), "answer")

    assert lines(caplog)[0] == ("WARNING", "Inbox orders is unreachable; retrying: too many")


async def test_a_watch_pauses_until_calls_are_accepted(fake_clock: FakeClock) -> None:
    closed = ServerError("maintenance", status=503, retry_after=61.0)
    await persist(fake_clock, Watch(*[[closed]] * 6))

    assert fake_clock.slept == [5, 10, 20, 40, 61, 61]
