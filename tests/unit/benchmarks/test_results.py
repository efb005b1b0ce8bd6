"""Figures, ratios and targets."""

from __future__ import annotations

import pytest

from benchmarks.results import Figure, Target, alone, compared, paired


def test_a_figure_is_the_median_and_the_quartiles_of_its_samples() -> None:
    figure = Figure.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (figure.median, figure.low, figure.high, figure.n) == (3.0, 2.0, 4.0, 5)
    assert figure.spread == 2.0


def test_a_single_sample_has_no_spread() -> None:
    figure = Figure.of([7.0])
    assert (figure.median, figure.spread, figure.n) == (7.0, 0.0, 1)


def test_no_sample_is_no_figure() -> None:
    with pytest.raises(ValueError, match="one sample or more"):
        Figure.of([])


def test_a_ratio_is_taken_round_by_round() -> None:
    row = compared("calls", "ms", [2.0, 40.0, 6.0], "bare", [1.0, 10.0, 2.0])
    assert row.ratio == Figure.of([2.0, 4.0, 3.0])
    # Not that of the medians: 6 to 2 only by chance, and 40 to 10 belongs together.
    assert (row.ours.median, row.theirs and row.theirs.median) == (6.0, 2.0)


def test_series_of_different_length_are_no_rounds() -> None:
    with pytest.raises(ValueError, match="zip"):
        compared("calls", "ms", [1.0, 2.0], "bare", [1.0])


def test_rounds_without_one_of_the_samples_are_left_out() -> None:
    row = paired("calls", "ms", [2.0, None, 6.0], "bare", [1.0, 1.0, None], Target("ratio", "<=", 2))
    assert row == compared("calls", "ms", [2.0], "bare", [1.0], Target("ratio", "<=", 2))


def test_where_no_round_has_both_there_is_ours_alone() -> None:
    row = paired("calls", "ms", [2.0, 4.0], "bare", [None, None], Target("ratio", "<=", 2))
    assert (row.ours.median, row.theirs, row.ratio, row.met) == (3.0, None, None, None)


def test_there_is_no_ratio_to_nothing() -> None:
    row = compared("modules", "modules", [3.0], "bare", [0.0], Target("ratio", "<=", 1))
    assert row.ratio is None
    assert row.met is None


@pytest.mark.parametrize(
    ("target", "met"),
    [
        (None, None),
        (Target("ours", "<", 20), False),
        (Target("ours", "<=", 20), True),
        (Target("ratio", "<=", 1.25), False),
        (Target("ratio", ">=", 1.25), True),
    ],
)
def test_a_target_is_met_by_our_median_or_by_that_of_the_ratio(
    target: Target | None, met: bool | None
) -> None:
    assert compared("calls", "ms", [20.0], "bare", [10.0], target).met is met


def test_a_target_says_what_is_wanted() -> None:
    assert str(Target("ratio", "<=", 1.25)) == "ratio <= 1.25"


def test_json_has_all_of_a_row() -> None:
    row = compared("calls", "ms", [20.0], "bare", [10.0], Target("ours", "<", 30))
    assert row.as_json() == {
        "what": "calls",
        "unit": "ms",
        "n": 1,
        "ours": {"median": 20.0, "low": 20.0, "high": 20.0, "spread": 0.0},
        "beside": "bare",
        "theirs": {"median": 10.0, "low": 10.0, "high": 10.0, "spread": 0.0},
        "ratio": {"median": 2.0, "low": 2.0, "high": 2.0, "spread": 0.0},
        "target": "ours < 30",
        "met": True,
        "point": None,
    }


def test_json_of_what_is_compared_with_nothing() -> None:
    shown = alone("delay", "s", [1.0]).as_json()
    assert (shown["beside"], shown["theirs"], shown["ratio"], shown["met"]) == ("", None, None, None)
