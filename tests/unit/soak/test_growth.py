from __future__ import annotations

import pytest

from tests.soak.growth import GOES_ON, GROWS, STANDS_STILL, STEADY, TOO_MANY, TOO_SHORT, Growth, Rule
from tests.soak.report import RULES, judged, table
from tests.soak.sampling import OPEN_FILES, OWN, THREADS, TO_SERVICE, Sampler

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


def test_a_moment_at_which_much_is_open_is_no_growth():
    values = [12.0] * len(HALF_HOUR)
    values[-3:] = [18.0] * 3
    assert verdict(TO_SERVICE, values) == STEADY


def test_a_worker_that_had_more_to_do_towards_the_end_did_not_grow():
    idle, busy = 25.0, 39.0
    third = len(SHORT) // 3
    late = [busy if number % 3 else idle for number in range(third)]
    assert verdict(OPEN_FILES, [idle] * (len(SHORT) - third) + late, SHORT) == STEADY


@pytest.mark.parametrize(
    ("what", "seconds"),
    # The threads that are allowed are as many as the machine's cores ask for, 32 at most.
    [(THREADS, 10), (TO_SERVICE, 10), (TO_SERVICE, 150), (OPEN_FILES, 150)],
)
def test_one_more_every_so_many_seconds_is_found_out_in_half_an_hour(what, seconds):
    assert verdict(what, [at // seconds for at in HALF_HOUR]) in (GROWS, TOO_MANY)


def test_one_more_with_each_run_of_the_listener_grows_within_a_minute():
    assert verdict(TO_SERVICE, [5.0 + at // 10 for at in SHORT], SHORT) == GROWS


def test_what_shrinks_does_not_grow():
    assert verdict(OPEN_FILES, [50.0 - at / 100 for at in HALF_HOUR]) == STEADY


def test_more_than_there_may_ever_be_is_too_many():
    assert verdict("sessions", [3.0] * len(HALF_HOUR)) == TOO_MANY


def test_memory_is_judged_by_its_slope_and_not_at_all_where_the_time_was_short():
    per_hour = RULES[OWN].per_hour
    for share, expected in ((0.5, STEADY), (2.0, GROWS)):
        values = [100 + share * per_hour * at / 3600 for at in HALF_HOUR]
        assert verdict(OWN, values) == expected
    assert verdict(OWN, [100 + at for at in SHORT], SHORT) == TOO_SHORT


def test_what_has_no_rule_is_only_shown():
    assert verdict("objects", HALF_HOUR) == ""


def test_renewals_that_do_not_happen_show_nothing():
    assert verdict("tokens issued", HALF_HOUR) == GOES_ON
    assert verdict("tokens issued", [7.0] * len(HALF_HOUR)) == STANDS_STILL


def test_growth_is_the_slope_in_an_hour_and_the_lower_quartiles_of_the_thirds():
    growth = Growth.of([[(at, at / 360) for at in range(0, 3601, 100)]])
    assert growth.per_hour == pytest.approx(10)
    assert (growth.first, growth.last, growth.most) == pytest.approx((300 / 360, 2700 / 360, 10))


def test_workers_are_looked_at_each_by_itself_and_added_up():
    # One of them works at a time, two at some moments: the sum of all would go up and down with that.
    times = range(0, 1000, 10)
    busy = [[20.0 + 7 * ((at // 10 + worker) % 4 == 0) for at in times] for worker in range(4)]
    growth = Growth.of([list(zip(times, values, strict=True)) for values in busy])
    assert (growth.first, growth.last) == (80, 80)
    busy[2] = [value + number / 20 for number, value in enumerate(busy[2])]
    growth = Growth.of([list(zip(times, values, strict=True)) for values in busy])
    assert growth.last - growth.first == pytest.approx(10 / 3, abs=0.2)


def test_a_worker_that_was_replaced_grows_by_one():
    sampler = Sampler()
    for at in SHORT:
        pids = (11, 12) if at < SHORT[-1] else (11, 13)
        for pid in pids:
            sampler.note(at, RUNNER, {OPEN_FILES: 5.0}, pid)
    assert Growth.of(sampler.series[RUNNER, OPEN_FILES].values()).last == 15


def test_the_table_names_what_grows():
    growing, steady = (
        [(at, value) for at, value in zip(HALF_HOUR, values, strict=True)]
        for values in (HALF_HOUR, [7.0] * len(HALF_HOUR))
    )
    lines = table(judged({(RUNNER, THREADS): {1: growing}, (RUNNER, OPEN_FILES): {1: steady}})).splitlines()
    assert len(lines) == 3
    assert [line for line in lines if GROWS in line] == [line for line in lines if THREADS in line]


def test_a_rule_says_what_it_allows():
    assert str(Rule(slack=2, most=18)) == "+2, 18 at most"
    assert str(Rule(per_hour=60)) == "+60/h"


def test_a_group_without_a_process_is_judged_too():
    sampler = Sampler(1)
    sampler.take(0.0, {"workers": []})
    (row,) = judged(sampler.series)
    assert row.growth.last == 0
