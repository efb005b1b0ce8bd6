"""Nothing is leased in order to be released: capacity is asked for first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_provider_workflow.dispatch.results import Drained
from tests.unit.workbench import Workbench


def counts(*values: int) -> Callable[[str], int]:
    """Unfinished runs, as they are told one question after the other."""
    answers: Iterator[int] = iter(values)
    return lambda dag_id: next(answers)


def test_only_as_many_are_leased_as_there_is_room_for(bench: Workbench) -> None:
    bench.ti.unfinished = counts(2, 5)
    bench.put(*"abcdef")
    dispatcher = bench.ready_dispatcher(max_unfinished_runs=5, lease_limit=100)

    assert dispatcher.drain() is Drained.NO_CAPACITY
    assert bench.lease_sizes == [3]
    assert bench.service.count("release") == 0
    assert bench.states == {"d": "available", "e": "available", "f": "available"}


def test_capacity_is_asked_for_before_each_lease(bench: Workbench) -> None:
    bench.ti.unfinished = counts(4, 3, 4, 5)
    bench.put(*"abcdef")
    dispatcher = bench.dispatcher(max_unfinished_runs=5)

    assert dispatcher.drain() is Drained.NO_CAPACITY
    assert bench.lease_sizes == [1, 2, 1]


@pytest.mark.parametrize("unfinished", [5, 6])
def test_without_room_nothing_is_leased(bench: Workbench, unfinished: int) -> None:
    bench.ti.unfinished = lambda dag_id: unfinished
    bench.put("a")
    dispatcher = bench.dispatcher(max_unfinished_runs=5)

    assert dispatcher.next_lease() == (0, 300)
    assert dispatcher.drain() is Drained.NO_CAPACITY
    assert bench.service.count("lease") == 0


def test_the_fullest_of_several_dags_decides(bench: Workbench) -> None:
    bench.supervisor.dags = {"one", "two"}
    bench.ti.unfinished = {"one": 1, "two": 4}.__getitem__
    dispatcher = bench.dispatcher({"one": "payload.x", "two": "payload"}, max_unfinished_runs=5)

    assert dispatcher.next_lease() == (1, 300)
