from __future__ import annotations

import pytest

from tests.soak.growth import GOES_ON, GROWS, STANDS_STILL, STEADY, TOO_MANY, TOO_SHORT
from tests.soak.report import RULES, judged
from tests.soak.sampling import OPEN_FILES, OWN, THREADS, TO_SERVICE

HALF_HOUR = [float(second) for second in range(360, 1800, 10)]
"""When samples are taken in a soak of half an hour."""
SHORT = [float(second) for second in range(18, 90, 2)]
RUNNER = "triggerer: runs the triggers"


def verdict(what: str, values: list[float], times: list[float] = HALF_HOUR) -> str:
    (row,) = judged({(RUNNER, what): {1: list(zip(times, values, strict=True))}})
    assert row.holds == (row.verdict not in (GROWS, TOO_MANY, STANDS_STILL))
    return row.verdict


def test_what_stays_the_same_is_steady():
    assert verdict(TO_SERVICE, [12.0] * len(HALF_HOUR)) == STEADY


def test_what_comes_and_goes_is_steady():
    assert verdict(TO_SERVICE, [12.0 + number % 3 for number in range(len(HALF_HOUR))]) == STEADY


@pytest.mark.parametrize(
    ("what", "seconds"),
    # The threads that are allowed are as many as the machine's cores ask for, 32 at most.
    [(THREADS, 10), (TO_SERVICE, 10), (TO_SERVICE, 150), (OPEN_FILES, 150)],
)
def test_one_more_every_so_many_seconds_is_found_out_in_half_an_hour(what, seconds):
    assert verdict(what, [at // seconds for at in HALF_HOUR]) in (GROWS, TOO_MANY)


def test_more_than_there_may_ever_be_is_too_many():
    assert verdict("sessions", [3.0] * len(HALF_HOUR)) == TOO_MANY


def test_memory_is_judged_by_its_slope_and_not_at_all_where_the_time_was_short():
    per_hour = RULES[OWN].per_hour
    for share, expected in ((0.5, STEADY), (2.0, GROWS)):
        values = [100 + share * per_hour * at / 3600 for at in HALF_HOUR]
        assert verdict(OWN, values) == expected
    assert verdict(OWN, [100 + at for at in SHORT], SHORT) == TOO_SHORT


def test_renewals_that_do_not_happen_show_nothing():
    assert verdict("tokens issued", HALF_HOUR) == GOES_ON
    assert verdict("tokens issued", [7.0] * len(HALF_HOUR)) == STANDS_STILL
