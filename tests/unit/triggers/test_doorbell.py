"""When a watcher rings, and when it looks again, from what it saw and heard."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.triggers.wakeup import Doorbell, Sight

EMPTY = Sight(whole=True)
CUT_SHORT = Sight()


def sees(*ids: str) -> Sight:
    return Sight(frozenset(ids))


@pytest.fixture
def doorbell() -> Doorbell:
    """It has seen that there is nothing."""
    bell = Doorbell(renotify_seconds=60, poll_interval=5, max_poll_interval=60)
    assert not bell.rings(EMPTY, 0)
    return bell


def test_it_rings_for_what_it_sees(doorbell: Doorbell) -> None:
    assert doorbell.rings(sees("a"), 0)


def test_it_rings_once_while_the_same_messages_and_more_of_them_are_there(doorbell: Doorbell) -> None:
    assert doorbell.rings(sees("a"), 0)
    assert not doorbell.rings(sees("a"), 5)
    assert not doorbell.rings(sees("a", "b"), 10)
    assert not doorbell.rings(sees("a", "b", "c"), 59)


def test_it_rings_again_when_the_same_messages_are_still_there(doorbell: Doorbell) -> None:
    assert [t for t in range(0, 200, 10) if doorbell.rings(sees("a"), t)] == [0, 60, 120, 180]


def test_what_is_there_now_counts_from_its_own_ring(doorbell: Doorbell) -> None:
    assert doorbell.rings(sees("a"), 0)
    assert doorbell.rings(sees("a", "b"), 60)
    assert not doorbell.rings(sees("b"), 65)


def test_messages_of_which_none_was_there_are_news(doorbell: Doorbell) -> None:
    assert doorbell.rings(sees("a", "b"), 0)
    assert doorbell.rings(sees("c"), 5)


def test_messages_that_were_gone_and_are_back_are_news(doorbell: Doorbell) -> None:
    assert doorbell.rings(sees("a"), 0)
    assert not doorbell.rings(EMPTY, 5)
    assert doorbell.rings(sees("a"), 10)


def test_it_does_not_ring_for_an_empty_inbox_whatever_was_announced(doorbell: Doorbell) -> None:
    doorbell.heard()

    assert not doorbell.rings(EMPTY, 5)
    assert not doorbell.rings(CUT_SHORT, 10)


def test_it_rings_in_doubt_when_it_begins() -> None:
    assert Doorbell(60, 5, 60).rings(CUT_SHORT, 0)


def test_it_rings_in_doubt_once_for_what_was_announced(doorbell: Doorbell) -> None:
    assert not doorbell.rings(CUT_SHORT, 0)
    doorbell.heard()
    assert doorbell.rings(CUT_SHORT, 5)
    assert not doorbell.rings(CUT_SHORT, 1000)


def test_it_rings_in_doubt_not_too_often_but_forgets_no_announcement(doorbell: Doorbell) -> None:
    doorbell.heard()
    assert doorbell.rings(CUT_SHORT, 0)
    doorbell.heard()
    assert not doorbell.rings(CUT_SHORT, 10)
    assert not doorbell.rings(CUT_SHORT, 59)
    assert doorbell.rings(CUT_SHORT, 60)


def test_what_is_seen_ends_the_doubt(doorbell: Doorbell) -> None:
    doorbell.heard()
    assert doorbell.rings(sees("a"), 0)
    assert not doorbell.rings(CUT_SHORT, 100)


def test_a_look_that_was_cut_short_says_nothing_of_what_it_rang_for(doorbell: Doorbell) -> None:
    assert doorbell.rings(sees("a"), 0)
    assert not doorbell.rings(CUT_SHORT, 5)
    assert not doorbell.rings(sees("a"), 10)


def looks(doorbell: Doorbell, count: int, now: float = 0.0) -> list[float]:
    found = []
    for _ in range(count):
        found.append(doorbell.next_look(now))
        now += found[-1]
    return found


def test_the_interval_doubles_while_there_is_no_news(doorbell: Doorbell) -> None:
    assert looks(doorbell, 6) == [5, 10, 20, 40, 60, 60]


def test_the_interval_begins_anew_with_an_announcement_and_with_news(doorbell: Doorbell) -> None:
    looks(doorbell, 4)
    doorbell.heard()
    assert looks(doorbell, 2) == [5, 10]
    doorbell.rings(sees("a"), 200)
    assert looks(doorbell, 2, 200) == [5, 10]


def test_the_interval_does_not_begin_anew_with_a_ring_for_the_same_messages(doorbell: Doorbell) -> None:
    doorbell.rings(sees("a"), 0)
    looks(doorbell, 5)
    assert doorbell.rings(sees("a"), 100)
    assert looks(doorbell, 1, 100) == [60]


def test_it_looks_in_time_for_the_next_ring(doorbell: Doorbell) -> None:
    doorbell.rings(sees("a"), 0)

    assert looks(doorbell, 4) == [5, 10, 20, 25]


def test_it_looks_in_time_for_the_next_ring_in_doubt(doorbell: Doorbell) -> None:
    doorbell.heard()
    doorbell.rings(CUT_SHORT, 0)
    looks(doorbell, 5)
    doorbell.heard()
    doorbell.rings(CUT_SHORT, 58)

    assert doorbell.next_look(58) == 2


def test_a_ring_that_is_overdue_does_not_make_it_look_without_pause(doorbell: Doorbell) -> None:
    doorbell.rings(sees("a"), 0)
    doorbell.rings(CUT_SHORT, 60)

    assert doorbell.next_look(60) == 5
