"""What is made of what was seen, and which inboxes get messages."""

from __future__ import annotations

import pytest

from benchmarks import growth
from benchmarks.growth import QUICK, Size, Watched
from benchmarks.throughput import Work


def test_what_a_run_took_stands_beside_the_least_of_its_kind() -> None:
    few, many = Work(count=1, seconds=0.5, used=0.2, grown=8), Work(count=100, seconds=2, used=0.4, grown=9)
    rows = {row.what: row for row in growth.work_rows({"1": [few, few], "100": [many, many]})}
    assert rows["1: time per DAG run"].ours.median == 500
    assert rows["1: time per DAG run"].ratio is None
    assert rows["100: time per DAG run"].ours.median == 20
    ratio = rows["100: CPU of the task per DAG run"].ratio
    assert ratio is not None
    assert (rows["100: CPU of the task per DAG run"].beside, ratio.median) == ("1", pytest.approx(0.02))
    assert rows["100: memory that the task grows by"].ours.median == 9


def test_watched_inboxes_stand_beside_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {1: Watched([1.0, 3.0], 0.5), 5: Watched([2.0, 3.0], 1.0)}
    monkeypatch.setattr(growth, "watched", lambda count, samples: seen[count])
    found = growth.of_inboxes(QUICK)
    assert [row.ours.median for row in found] == [2, 0.5, 2.5, 1]
    assert [row.ratio and row.ratio.median for row in found] == [None, None, 1.5, 2]


@pytest.mark.parametrize("count", Size().inboxes)
def test_messages_are_spread_over_the_inboxes_that_there_are(count: int) -> None:
    chosen = list(growth.spread(15, count))
    assert len(chosen) == 15
    assert len(set(chosen)) == min(15, count)
    assert all(0 <= number < count for number in chosen)
