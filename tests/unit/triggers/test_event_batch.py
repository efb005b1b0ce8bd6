"""A batch says which messages are in stored events, whatever Airflow reports."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.triggers.event_batch import Batch, Rejection, Watcher
from tests.unit.test_leases import message
from tests.unit.triggers.watched import carried

ONE, TWO = Watcher(), Watcher()


def batch() -> Batch:
    return Batch("i", HeldLease("l", 0.0, "", []), [carried(message(each)) for each in "abc"])


def both_chose(one: str, two: str, *, marks: tuple[Watcher, ...] = (ONE, TWO)) -> Batch:
    made = batch()
    made.record_choice(ONE, one, {})
    made.record_choice(TWO, two, {})
    for watcher in marks:
        made.record_event(watcher)
    return made


def test_what_every_wanting_watcher_has_marked_is_stored() -> None:
    report = both_chose("ab", "b").report(2, 0, 0)

    assert report == (["a", "b"], ["c"], {}, [])


def test_what_one_of_them_has_not_marked_comes_again() -> None:
    report = both_chose("ab", "bc", marks=(ONE,)).report(2, 0, 0)

    assert report == (["a"], [], {}, ["b", "c"])


@pytest.mark.parametrize(
    ("acked", "failed", "rejected"), [(1, 1, 0), (0, 2, 0), (0, 1, 1), (3, 0, 0), (2, 0, 1)]
)
def test_a_failure_or_a_watcher_without_a_choice_makes_all_come_again(
    acked: int, failed: int, rejected: int
) -> None:
    report = both_chose("abc", "abc").report(acked, failed, rejected)

    assert report == ([], [], {}, ["a", "b", "c"])


def test_what_one_rejects_is_rejected_even_where_the_other_wants_it() -> None:
    made = batch()
    made.record_choice(ONE, "abc", {})
    made.record_event(ONE)
    made.record_choice(TWO, "", {"b": "it fails"})
    report = made.report(1, 0, 1)

    assert report.stored == ["a", "c"]
    assert report.rejected == {"b": Rejection("it fails", TWO)}
    assert report.unmatched == report.undelivered == []


def test_what_is_rejected_stays_rejected_where_another_watcher_failed() -> None:
    made = batch()
    made.record_choice(ONE, "", {"b": "it fails"})
    report = made.report(0, 1, 1)

    assert report.undelivered == ["a", "c"]
    assert set(report.rejected) == {"b"}


def test_it_stands_while_all_who_wanted_something_are_there() -> None:
    here, gone = Watcher(), Watcher(has_ended=True)
    made = batch()
    made.record_choice(here, "a", {})
    made.record_choice(gone, "", {})
    assert made.watchers_remain()

    made.record_choice(gone, "b", {})
    assert not made.watchers_remain()


def test_a_rejection_lasts_as_long_as_the_one_who_rejected() -> None:
    watcher = Watcher()
    rejection = Rejection("it fails", watcher)
    assert rejection.lasts

    watcher.has_ended = True
    assert not rejection.lasts
    assert Rejection("too deep").lasts
