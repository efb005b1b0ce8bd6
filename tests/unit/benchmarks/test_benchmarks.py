"""The benchmarks: their command line, their figures, and the DAG files of the peers."""

from __future__ import annotations

import pytest

from benchmarks.results import Figure, alone, compared, in_turns


def test_a_figure_is_the_median_and_the_quartiles_of_its_samples() -> None:
    assert Figure.of([5.0, 1.0, 2.0, 4.0, 3.0]) == Figure(3.0, 2.0, 4.0, 5)
    assert Figure.of([7.0]) == Figure(7.0, 7.0, 7.0, 1)
    with pytest.raises(ValueError, match="one sample or more"):
        Figure.of([])


def test_a_ratio_is_taken_round_by_round() -> None:
    row = compared("calls", "ms", [2.0, 40.0, 6.0], "bare", [1.0, 10.0, 2.0])
    assert row.ratio == Figure.of([2.0, 4.0, 3.0])
    # Not that of the medians: 6 to 2 only by chance, and 40 to 10 belongs together.
    assert (row.ours.median, row.theirs and row.theirs.median) == (6.0, 2.0)
    assert compared("modules", "modules", [3.0], "bare", [0.0]).ratio is None
    with pytest.raises(ValueError, match="zip"):
        compared("calls", "ms", [1.0, 2.0], "bare", [1.0])


def test_an_aim_is_about_the_ratio_or_what_is_compared_with_nothing() -> None:
    assert compared("CPU", "ms", [6.0], "bare", [5.0], at_most=1.25).aim == "at most 1.25"
    assert compared("CPU", "ms", [6.0], "bare", [4.0], at_most=1.25).aim == "at most 1.25, missed"
    assert compared("runs", "1/s", [9.0], "bare", [10.0], at_least=0.95).aim == "at least 0.95, missed"
    assert alone("page", "ms", [199.0], at_most=200).aim == "at most 200"
    assert alone("page", "ms", [1.0]).aim == ""


def test_each_way_is_first_in_some_round_and_the_first_round_does_not_count() -> None:
    calls: list[str] = []
    ways = {name: lambda name=name: calls.append(name) or len(calls) for name in "abc"}

    samples = in_turns(ways, rounds=2)

    assert "".join(calls) == "abcbcacab"
    assert samples == {"a": [6, 8], "b": [4, 9], "c": [5, 7]}
