"""When a notice is due, and when the next poll is, from what was listed and announced."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.triggers.notice import DOUBT_SECONDS, NoticeSchedule

Listed = tuple[frozenset[str], bool]
EMPTY: Listed = (frozenset(), True)
CUT_SHORT: Listed = (frozenset(), False)


def sees(*ids: str) -> Listed:
    return frozenset(ids), False


@pytest.fixture
def schedule() -> NoticeSchedule:
    """It has seen that there is nothing."""
    made = NoticeSchedule(renotify_seconds=60, poll_interval=5, max_poll_interval=60)
    assert not made.is_due(*EMPTY, 0)
    return made


def test_a_notice_is_due_for_what_is_listed(schedule: NoticeSchedule) -> None:
    assert schedule.is_due(*sees("a"), 0)


def test_one_is_due_while_the_same_messages_and_more_of_them_are_there(schedule: NoticeSchedule) -> None:
    assert schedule.is_due(*sees("a"), 0)
    assert not schedule.is_due(*sees("a"), 5)
    assert not schedule.is_due(*sees("a", "b"), 10)
    assert not schedule.is_due(*sees("a", "b", "c"), 59)


def test_another_is_due_when_the_same_messages_are_still_there(schedule: NoticeSchedule) -> None:
    assert [t for t in range(0, 200, 10) if schedule.is_due(*sees("a"), t)] == [0, 60, 120, 180]


def test_what_is_there_now_counts_from_its_own_notice(schedule: NoticeSchedule) -> None:
    assert schedule.is_due(*sees("a"), 0)
    assert schedule.is_due(*sees("a", "b"), 60)
    assert not schedule.is_due(*sees("b"), 65)


def test_messages_of_which_none_was_there_are_new(schedule: NoticeSchedule) -> None:
    assert schedule.is_due(*sees("a", "b"), 0)
    assert schedule.is_due(*sees("c"), 5)


def test_messages_that_were_gone_and_are_back_are_new(schedule: NoticeSchedule) -> None:
    assert schedule.is_due(*sees("a"), 0)
    assert not schedule.is_due(*EMPTY, 5)
    assert schedule.is_due(*sees("a"), 10)


def test_none_is_due_for_an_empty_inbox_whatever_was_announced(schedule: NoticeSchedule) -> None:
    schedule.may_have_arrived()

    assert not schedule.is_due(*EMPTY, 5)
    assert not schedule.is_due(*CUT_SHORT, 10)


def test_one_is_due_in_doubt_at_the_beginning() -> None:
    assert NoticeSchedule(60, 5, 60).is_due(*CUT_SHORT, 0)


def test_one_is_due_in_doubt_for_what_was_announced(schedule: NoticeSchedule) -> None:
    assert not schedule.is_due(*CUT_SHORT, 0)
    schedule.may_have_arrived()
    assert schedule.is_due(*CUT_SHORT, 5)
    assert not schedule.is_due(*CUT_SHORT, 304)


def test_doubt_returns_every_five_minutes_where_a_long_list_shows_nothing(schedule: NoticeSchedule) -> None:
    seconds = [second for second in range(0, 1000, 10) if schedule.is_due(*CUT_SHORT, second)]

    assert seconds == [DOUBT_SECONDS, 2 * DOUBT_SECONDS, 3 * DOUBT_SECONDS]


def test_notices_in_doubt_are_not_too_often_and_forget_no_announcement(schedule: NoticeSchedule) -> None:
    schedule.may_have_arrived()
    assert schedule.is_due(*CUT_SHORT, 0)
    schedule.may_have_arrived()
    assert not schedule.is_due(*CUT_SHORT, 10)
    assert not schedule.is_due(*CUT_SHORT, 59)
    assert schedule.is_due(*CUT_SHORT, 60)


def test_what_is_seen_ends_the_doubt(schedule: NoticeSchedule) -> None:
    schedule.may_have_arrived()
    assert schedule.is_due(*sees("a"), 0)
    assert not schedule.is_due(*CUT_SHORT, 100)


def test_a_listing_that_was_cut_short_says_nothing_of_noticed_messages(
    schedule: NoticeSchedule,
) -> None:
    assert schedule.is_due(*sees("a"), 0)
    assert not schedule.is_due(*CUT_SHORT, 5)
    assert not schedule.is_due(*sees("a"), 10)


def polls(schedule: NoticeSchedule, count: int, now: float = 0.0) -> list[float]:
    found = []
    for _ in range(count):
        found.append(schedule.next_poll(now))
        now += found[-1]
    return found


def test_the_interval_doubles_while_nothing_is_new(schedule: NoticeSchedule) -> None:
    assert polls(schedule, 6) == [5, 10, 20, 40, 60, 60]


def test_the_interval_begins_anew_with_a_wake_up_and_with_new_messages(
    schedule: NoticeSchedule,
) -> None:
    polls(schedule, 4)
    schedule.may_have_arrived()
    assert polls(schedule, 2) == [5, 10]
    schedule.is_due(*sees("a"), 200)
    assert polls(schedule, 2, 200) == [5, 10]


def test_the_interval_stays_with_a_notice_for_the_same_messages(
    schedule: NoticeSchedule,
) -> None:
    schedule.is_due(*sees("a"), 0)
    polls(schedule, 5)
    assert schedule.is_due(*sees("a"), 100)
    assert polls(schedule, 1, 100) == [60]


def test_the_next_poll_is_in_time_for_the_next_notice(schedule: NoticeSchedule) -> None:
    schedule.is_due(*sees("a"), 0)

    assert polls(schedule, 4) == [5, 10, 20, 25]


def test_the_next_poll_is_in_time_for_the_next_notice_in_doubt(schedule: NoticeSchedule) -> None:
    schedule.may_have_arrived()
    schedule.is_due(*CUT_SHORT, 0)
    polls(schedule, 5)
    schedule.may_have_arrived()
    schedule.is_due(*CUT_SHORT, 58)

    assert schedule.next_poll(58) == 2


def test_a_notice_that_is_overdue_leads_to_no_poll_without_a_pause(schedule: NoticeSchedule) -> None:
    schedule.is_due(*sees("a"), 0)
    schedule.is_due(*CUT_SHORT, 60)

    assert schedule.next_poll(60) == 5
