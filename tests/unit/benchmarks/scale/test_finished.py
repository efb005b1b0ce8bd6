"""What is shown of messages that became finished runs."""

from __future__ import annotations

import pytest

from benchmarks.scale.finished import ALONE, WAYS, Finished, rows
from benchmarks.scale.load import MACHINE, Load

ALONE_WAY, SENSOR = WAYS[0], WAYS[1]
LOAD = Load(30.0, {"workers": 6.0, MACHINE: 30.0})
FLOOR = Finished(ALONE_WAY, 2, [(15.0, 1), (30.0, 1)], LOAD)


def test_the_rate_is_that_from_the_first_message_to_the_last_finished_run() -> None:
    assert FLOOR.per_minute == 4
    assert Finished(SENSOR, 300, [(10.0, 100), (20.0, 200)], LOAD).per_minute == 900
    assert Finished(SENSOR, 300, [], LOAD).per_minute == 0


def test_each_way_stands_beside_runs_of_the_rest_api() -> None:
    found = rows([FLOOR, Finished(SENSOR, 3, [(20.0, 1), (60.0, 1)], LOAD)])
    shown = {row.what: row for row in found}
    rate = shown["sensor, 3 messages: finished per minute"]
    assert (rate.ours.median, rate.ratio and rate.ratio.median) == (2, 0.5)
    assert shown["sensor, 3 messages: not finished in time"].ours.median == 1
    assert shown["sensor, 3 messages: CPU of workers per message"].ours.median == 3000


@pytest.mark.parametrize("number", [0, 1])
def test_a_way_of_which_nothing_is_finished_is_shown_without_a_ratio(number: int) -> None:
    both = [FLOOR, Finished(SENSOR, 3, [(20.0, 1)], LOAD)]
    both[number] = Finished(both[number].way, 3, [], LOAD)
    shown = {row.what: row for row in rows(both)}
    assert {row.unit: row.ratio for row in shown.values()}["1/min"] is (
        None if number == 0 else shown["sensor, 3 messages: finished per minute"].ratio
    )
    name = both[number].way.shown
    assert shown[f"{name}, 3 messages: finished per minute"].ours.median == 0
    assert shown[f"{name}, 3 messages: not finished in time"].ours.median == 3


def test_one_way_is_without_the_service() -> None:
    assert [way.name for way in WAYS].count(ALONE) == 1
    assert len({way.name for way in WAYS}) == len(WAYS) == 5
