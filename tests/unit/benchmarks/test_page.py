"""What is shown of browsers with the page open."""

from __future__ import annotations

from benchmarks.page import Answers, Size, rows


def test_what_browsers_add_is_taken_round_by_round() -> None:
    size = Size(2, seconds=30.0, browsers=50)
    answers = [Answers(500, 0), Answers(250, 3)]

    share, more, requests, failed = rows(size, [7.0, 10.0], [4.0, 6.0], answers)

    assert (share.ours.median, share.theirs and share.theirs.median) == (8.5, 5.0)
    assert (more.ours.low, more.ours.high, more.met) == (3.25, 3.75, True)
    assert requests.ours.median == 12.5
    assert failed.ours.median == 1.5
