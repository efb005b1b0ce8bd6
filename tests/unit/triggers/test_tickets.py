"""A ticket says which messages are in stored events, whatever Airflow reports."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.triggers.tickets import Refusal, Ticket, Watcher
from tests.unit.test_leases import message
from tests.unit.triggers.watched import carried

ONE, TWO = Watcher(), Watcher()


def ticket() -> Ticket:
    return Ticket("i", HeldLease("l", 0.0, "", []), [carried(message(each)) for each in "abc"])


def both_judged(one: str, two: str, *, marks: tuple[Watcher, ...] = (ONE, TWO)) -> Ticket:
    made = ticket()
    made.judge(ONE, one, {})
    made.judge(TWO, two, {})
    for watcher in marks:
        made.mark(watcher, proven=True)
    return made


def test_what_every_wanting_watcher_has_marked_is_stored() -> None:
    settled = both_judged("ab", "b").settle(2, 0, 0)

    assert settled == (["a", "b"], ["c"], {}, [])


def test_what_one_of_them_has_not_marked_comes_again() -> None:
    settled = both_judged("ab", "bc", marks=(ONE,)).settle(2, 0, 0)

    assert settled == (["a"], [], {}, ["b", "c"])


@pytest.mark.parametrize(
    ("acked", "failed", "rejected"), [(1, 1, 0), (0, 2, 0), (0, 1, 1), (3, 0, 0), (2, 0, 1)]
)
def test_a_failure_or_a_watcher_without_a_judgement_makes_all_come_again(
    acked: int, failed: int, rejected: int
) -> None:
    settled = both_judged("abc", "abc").settle(acked, failed, rejected)

    assert settled == ([], [], {}, ["a", "b", "c"])


def test_what_one_refuses_is_refused_even_where_the_other_wants_it() -> None:
    made = ticket()
    made.judge(ONE, "abc", {})
    made.mark(ONE, proven=True)
    made.judge(TWO, "", {"b": "it fails"})
    settled = made.settle(1, 0, 1)

    assert settled.stored == ["a", "c"]
    assert settled.refused == {"b": Refusal("it fails", TWO)}
    assert settled.unwanted == settled.again == []


def test_what_is_refused_stays_refused_where_another_watcher_failed() -> None:
    made = ticket()
    made.judge(ONE, "", {"b": "it fails"})
    settled = made.settle(0, 1, 1)

    assert settled.again == ["a", "c"]
    assert set(settled.refused) == {"b"}


def test_it_stands_while_all_who_wanted_something_are_there() -> None:
    here, gone = Watcher(), Watcher(gone=True)
    made = ticket()
    made.judge(here, "a", {})
    made.judge(gone, "", {})
    assert made.stands()

    made.judge(gone, "b", {})
    assert not made.stands()


def test_it_is_proven_where_each_mark_is() -> None:
    made = both_judged("a", "b")
    assert made.is_proven()

    made.mark(TWO, proven=False)
    assert not made.is_proven()


def test_a_refusal_lasts_as_long_as_the_one_who_refused() -> None:
    watcher = Watcher()
    refusal = Refusal("it fails", watcher)
    assert refusal.lasts

    watcher.gone = True
    assert not refusal.lasts
    assert Refusal("too deep").lasts
