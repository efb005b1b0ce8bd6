"""Faults: what is said of a series of them, and how watchers outlast those that tasks may fail of."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    NotFoundError,
    ServerError,
    TransportError,
)
from airflow_provider_workflow.triggers import patience
from airflow_provider_workflow.triggers.patience import Faults, patiently, persistently
from tests.unit.workbench import FakeTime

log = logging.getLogger("tests.patience")
FAULT = ServerError("made up", status=503)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """The time of triggers, which passes only where they wait."""
    fake = FakeTime()
    monkeypatch.setattr(patience, "time", fake)
    return fake


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


async def ask(time: FakeTime, *answers: Any, interval: float = 60, faults: Faults | None = None) -> Any:
    async def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    return await patiently(
        Asked(*answers),
        wait,
        inbox="orders",
        poll_interval=interval,
        max_poll_interval=interval,
        log=log,
        faults=faults,
    )


async def test_a_fault_is_said_at_once_and_no_more_within_five_minutes(
    time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(time, *[FAULT] * 5, "answer")

    assert lines(caplog) == [
        ("WARNING", "Inbox orders is out of reach; trying on: made up"),
        ("INFO", "Inbox orders is within reach again"),
    ]


async def test_after_five_minutes_it_is_said_once_more_with_the_cause_of_then(
    time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(time, *[FAULT] * 5, *[TransportError("gone", sent=False)] * 20, "answer")

    assert lines(caplog) == [
        ("WARNING", "Inbox orders is out of reach; trying on: made up"),
        ("ERROR", "Inbox orders has been out of reach for 5 minutes; trying on: gone"),
        ("INFO", "Inbox orders is within reach again"),
    ]


async def test_time_in_which_there_was_an_answer_does_not_count(
    time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(time, *[FAULT, None] * 6, "answer")

    assert [level for level, _ in lines(caplog)] == ["WARNING", "INFO"] * 6


async def test_the_next_long_series_is_said_again(time: FakeTime, caplog: pytest.LogCaptureFixture) -> None:
    await ask(time, *[FAULT] * 8, None, *[FAULT] * 8, "answer")

    assert [level for level, _ in lines(caplog)] == ["WARNING", "ERROR", "INFO"] * 2


async def test_there_is_no_line_for_a_poll_that_finds_nothing(
    time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    await ask(time, *[None] * 50, "answer")

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


async def persist(time: FakeTime, watch: Watch) -> list[str]:
    found: list[str] = []

    async def wait(seconds: float) -> None:
        time.sleep(seconds)
        if not watch.acts:
            raise Ended

    try:
        async for each in persistently(watch, inbox="orders", log=log, wait=wait):
            found.append(each)
    except Ended:
        return found
    raise AssertionError("the watch ended by itself")


WRONG = AuthenticationError("wrong secret", status=401)


async def test_a_watch_outlasts_what_waiting_does_not_cure_with_growing_pauses(
    time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    assert await persist(time, Watch(*[[WRONG]] * 9, ["answer", "news"])) == ["news"]
    assert time.slept == [5, 10, 20, 40, 80, 160, 300, 300, 300, 5]
    assert lines(caplog) == [
        ("ERROR", "Inbox orders is out of reach until this is mended: wrong secret"),
        ("ERROR", "Inbox orders has been out of reach for 5 minutes; trying on: wrong secret"),
        ("INFO", "Inbox orders is within reach again"),
    ]


async def test_the_pauses_begin_anew_after_an_answer(time: FakeTime) -> None:
    await persist(time, Watch([WRONG], [WRONG], ["answer", WRONG], [WRONG]))

    assert time.slept == [5, 10, 5, 10]


async def test_a_watch_that_ends_is_begun_again_and_closed_each_time(time: FakeTime) -> None:
    watch = Watch(["one"], ["two", WRONG], ["three"])

    assert await persist(time, watch) == ["one", "two", "three"]
    assert watch.closed == 3


async def test_who_leaves_a_watch_closes_it(time: FakeTime) -> None:
    watch = Watch(["one", "two"])
    async with aclosing(persistently(watch, inbox="orders", log=log)) as found:
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
    error: Exception, cause: str, time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    await persist(time, Watch([error]))

    assert lines(caplog) == [("ERROR", f"Inbox orders is out of reach until this is mended: {cause}")]
    [record] = [each for each in caplog.records if each.name == log.name]
    assert bool(record.exc_info) is not isinstance(error, AirflowException)


async def test_what_is_to_be_mended_is_said_once_for_each_kind_and_series(
    time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    missing = NotFoundError("no such inbox", status=404)
    await persist(time, Watch([FAULT], [WRONG], [missing], [WRONG], ["answer", WRONG]))

    assert [text.rpartition(": ")[2] for _, text in lines(caplog)] == [
        "made up",
        "wrong secret",
        "no such inbox",
        "Inbox orders is within reach again",
        "wrong secret",
    ]


async def test_a_series_goes_on_from_the_watch_to_what_it_asks(
    time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    faults = Faults("orders", log)
    faults.met(WRONG)
    await ask(time, FAULT, "answer", faults=faults)

    assert [level for level, _ in lines(caplog)] == ["ERROR", "INFO"]
