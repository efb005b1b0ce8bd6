"""The count of runs that overlap, which ``tools/overlapping_runs.py`` prints."""

from __future__ import annotations

from typing import Any

import pytest

from tools.overlapping_runs import Overlaps, overlaps

pytestmark = pytest.mark.program


def runs(*spans: tuple[int | None, int | None]) -> list[dict[str, Any]]:
    def moment(second: int | None) -> str | None:
        return None if second is None else f"2026-01-01T00:00:{second:02}.5Z"

    return [{"start_date": moment(start), "end_date": moment(end)} for start, end in spans]


@pytest.mark.parametrize(
    ("spans", "overlapped", "out_of_order"),
    [
        ([(0, 2), (2, 4), (5, 6)], 0, 0),
        ([(0, 3), (2, 4), (5, 6)], 2, 0),
        ([(0, 9), (1, 2), (3, 4)], 3, 0),
        ([(4, 5), (0, 1), (2, 3)], 0, 2),
        ([(0, None), (1, 2)], 2, 0),
    ],
)
def test_runs_overlap_only_within_their_dag(
    spans: list[tuple[int | None, int | None]], overlapped: int, out_of_order: int
) -> None:
    counted = overlaps([runs(*spans), runs((0, 9))])

    assert counted == Overlaps(len(spans) + 1, overlapped, out_of_order)


def test_a_run_that_is_still_queued_does_not_count() -> None:
    assert overlaps([runs((0, 1), (None, None))]) == Overlaps(1, 0, 0)
