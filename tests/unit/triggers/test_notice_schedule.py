"""When a notice is due, from what was listed."""

from __future__ import annotations

import math

import pytest

from airflow_provider_workflow.triggers.notice import UNSEEN, NoticeSchedule
from tests.unit.fake_clock import FakeClock

EMPTY: frozenset[str] = frozenset()


@pytest.fixture
def schedule(fake_clock: FakeClock) -> NoticeSchedule:
    return NoticeSchedule(renotify_seconds=60)


def due_at(
    schedule: NoticeSchedule, fake_clock: FakeClock, listed: dict[float, frozenset[str]]
) -> list[float]:
    """The seconds at which a notice is due, of those at which something was listed."""
    seconds = []
    for second, available in listed.items():
        fake_clock.set(fake_clock.start + second)
        seconds += [second] if schedule.is_due(available) else []
    return seconds


def test_one_is_due_while_the_same_messages_and_more_of_them_are_there(
    schedule: NoticeSchedule, fake_clock: FakeClock
) -> None:
    listed = {0: frozenset("a"), 5: frozenset("a"), 10: frozenset("ab"), 59: frozenset("abc")}

    assert due_at(schedule, fake_clock, listed) == [0]


@pytest.mark.parametrize("available", [frozenset("a"), UNSEEN])
def test_another_is_due_when_the_same_messages_are_still_there(
    schedule: NoticeSchedule, fake_clock: FakeClock, available: frozenset[str]
) -> None:
    listed = dict.fromkeys(range(0, 200, 10), available)

    assert due_at(schedule, fake_clock, listed) == [0, 60, 120, 180]


def test_what_is_there_now_counts_from_its_own_notice(
    schedule: NoticeSchedule, fake_clock: FakeClock
) -> None:
    listed = {0: frozenset("a"), 60: frozenset("ab"), 65: frozenset("b")}

    assert due_at(schedule, fake_clock, listed) == [0, 60]


def test_messages_of_which_none_was_there_are_new(schedule: NoticeSchedule, fake_clock: FakeClock) -> None:
    assert due_at(schedule, fake_clock, {0: frozenset("ab"), 5: frozenset("c")}) == [0, 5]


def test_messages_that_were_gone_and_are_back_are_new(
    schedule: NoticeSchedule, fake_clock: FakeClock
) -> None:
    assert due_at(schedule, fake_clock, {0: frozenset("a"), 5: EMPTY, 10: frozenset("a")}) == [0, 10]


def test_none_is_due_for_an_empty_inbox(schedule: NoticeSchedule) -> None:
    assert not schedule.is_due(EMPTY)
    assert schedule.seconds_left() == math.inf


def test_the_time_of_the_next_notice_is_known(schedule: NoticeSchedule, fake_clock: FakeClock) -> None:
    schedule.is_due(frozenset("a"))
    fake_clock.advance(20)

    assert schedule.seconds_left() == 40
