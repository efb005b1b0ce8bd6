"""The benchmarks: their command line, their figures, and the DAG files of the peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from benchmarks.results import Figure, alone, compared, in_turns


def test_a_figure_is_the_median_and_the_quartiles_of_its_samples() -> None:
    assert Figure.of([5.0, 1.0, 2.0, 4.0, 3.0]) == Figure(3.0, 2.0, 4.0, 5)
    assert Figure.of([7.0]) == Figure(7.0, 7.0, 7.0, 1)
    assert Figure.of([4.0, 2.0]) == Figure(3.0, 2.5, 3.5, 2)
    with pytest.raises(ValueError, match="one sample or more"):
        Figure.of([])


def test_samples_that_never_ended_leave_the_median_of_most_that_did() -> None:
    assert Figure.of([inf, 1.0, 2.0]) == Figure(2.0, 1.5, inf, 3)
    assert Figure.of([inf, 1.0, inf, 2.0, inf]) == Figure(inf, 2.0, inf, 5)


def test_an_aim_says_what_is_wanted_and_whether_it_was_missed() -> None:
    row = compared("calls", "ms", [2.0], "bare", [1.0])
    assert row.aim == ""
    assert replace(row, at_most=1.25).aim == "at most 1.25, missed"
    assert replace(row, at_least=1.25).aim == "at least 1.25"
    assert str(Figure.of([2.0])) == "2"


def test_a_ratio_is_taken_round_by_round() -> None:
    row = compared("calls", "ms", [2.0, 40.0, 6.0], "bare", [1.0, 10.0, 2.0])
    assert row.ratio == Figure.of([2.0, 4.0, 3.0])
    # Not that of the medians: 6 to 2 only by chance, and 40 to 10 belongs together.
    assert (row.ours.median, row.theirs and row.theirs.median) == (6.0, 2.0)
    with pytest.raises(ValueError, match="zip"):
        compared("calls", "ms", [1.0, 2.0], "bare", [1.0])


@pytest.mark.parametrize(
    ("ours", "theirs", "aim", "text"),
    [
        (6.0, 5.0, {"at_most": 1.25}, "at most 1.25"),
        (6.0, 4.0, {"at_most": 1.25}, "at most 1.25, missed"),
        (10.0, 10.0, {"at_least": 0.95}, "at least 0.95"),
        (9.0, 10.0, {"at_least": 0.95}, "at least 0.95, missed"),
        (9.0, 10.0, {}, ""),
    ],
)
def test_an_aim_of_a_comparison_is_about_the_ratio(
    ours: float, theirs: float, aim: dict[str, float], text: str
) -> None:
    assert compared("calls", "ms", [ours], "bare", [theirs], **aim).aim == text


def test_an_aim_of_what_is_compared_with_nothing_is_about_its_figure() -> None:
    assert alone("page", "ms", [199.0], at_most=200).aim == "at most 200"
    assert alone("page", "ms", [201.0], at_most=200).aim == "at most 200, missed"


def test_each_way_begins_a_round_in_turn_and_the_first_round_is_no_sample() -> None:
    calls: list[str] = []

    def way(name: str) -> Callable[[], int]:
        return lambda: calls.append(name) or len(calls)  # type: ignore[func-returns-value]

    samples = in_turns({name: way(name) for name in "abc"}, rounds=2)

    assert "".join(calls) == "abc" + "bca" + "cab"
    assert samples == {"a": [6, 8], "b": [4, 9], "c": [5, 7]}
