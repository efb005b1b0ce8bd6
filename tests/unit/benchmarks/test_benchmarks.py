"""The benchmarks: their command line, their figures, and the DAG files of the peers."""

from __future__ import annotations

import pytest

from benchmarks.results import Figure, compared


def test_a_ratio_is_taken_round_by_round() -> None:
    row = compared("calls", "ms", [2.0, 40.0, 6.0], "bare", [1.0, 10.0, 2.0])
    assert row.ratio == Figure.of([2.0, 4.0, 3.0])
    # Not that of the medians: 6 to 2 only by chance, and 40 to 10 belongs together.
    assert (row.ours.median, row.theirs and row.theirs.median) == (6.0, 2.0)
    with pytest.raises(ValueError, match="zip"):
        compared("calls", "ms", [1.0, 2.0], "bare", [1.0])
