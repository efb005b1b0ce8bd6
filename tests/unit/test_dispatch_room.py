"""Nothing is leased in order to be released: room is asked for first, and an unsure target gets a pilot."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_provider_workflow.dispatch import Drained
from airflow_provider_workflow.run_faults import TargetError
from tests.unit.fakes import OldTaskInstance, api_error
from tests.unit.workbench import FakeTime, Workbench

Release = Callable[[int, int], None]


def counts(*values: int) -> Callable[[str], int]:
    """Unfinished runs, as they are told one question after the other."""
    answers: Iterator[int] = iter(values)
    return lambda dag_id: next(answers)


@pytest.mark.since(3, 3, "a check of the target that is certain")
def test_only_as_many_are_leased_as_there_is_room_for(bench: Workbench) -> None:
    bench.ti.unfinished = counts(2, 5)
    bench.put(*"abcdef")
    dispatcher = bench.dispatcher(max_unfinished_runs=5)
    dispatcher.check_targets()

    assert dispatcher.drain() is Drained.NO_ROOM
    assert bench.lease_sizes == [3]
    assert bench.service.count("release") == 0
    assert bench.states == {"d": "available", "e": "available", "f": "available"}


def test_room_is_asked_for_before_each_lease(bench: Workbench) -> None:
    bench.ti.unfinished = counts(4, 3, 4, 5)
    bench.put(*"abcdef")
    dispatcher = bench.dispatcher(max_unfinished_runs=5)
    dispatcher.check_targets()

    assert dispatcher.drain() is Drained.NO_ROOM
    assert bench.lease_sizes == [1, 2, 1]


@pytest.mark.parametrize("unfinished", [5, 6, 1000])
def test_without_room_nothing_is_leased(bench: Workbench, unfinished: int) -> None:
    bench.ti.unfinished = lambda dag_id: unfinished
    bench.put("a")
    dispatcher = bench.dispatcher(max_unfinished_runs=5)
    dispatcher.check_targets()

    assert dispatcher.next_lease() == 0
    assert dispatcher.drain() is Drained.NO_ROOM
    assert bench.service.count("lease") == 0


def test_the_fullest_of_several_dags_decides(bench: Workbench) -> None:
    bench.supervisor.dags = {"one", "two"}
    bench.ti.unfinished = {"one": 1, "two": 4}.__getitem__
    dispatcher = bench.dispatcher({"one": "payload.x", "two": "payload"}, max_unfinished_runs=5)
    dispatcher.check_targets()

    assert dispatcher.next_lease() == 1


def test_a_lease_that_was_handed_over_waits_for_room_as_long_as_it_lasts(
    bench: Workbench, hands: FakeTime
) -> None:
    bench.ti.unfinished = counts(1, 1, 0, 1, 0)
    bench.put("a", "b")
    lease = bench.lease()
    bench.dispatcher(max_unfinished_runs=1).work_on(lease)

    assert bench.supervisor.started == ["a", "b"]
    assert hands.slept == [2.0, 2.0, 2.0]


def test_a_lease_that_finds_no_room_in_its_time_is_left(
    bench: Workbench, hands: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    bench.ti.unfinished = lambda dag_id: 1
    bench.put("a", "b")
    lease = bench.lease(seconds=60)
    bench.dispatcher(max_unfinished_runs=1).work_on(lease)

    assert bench.supervisor.started == []
    assert sum(hands.slept) == 30
    assert bench.states == {"a": "leased", "b": "leased"}
    assert bench.service.count("release") == 0
    assert "2 messages of a lease were not started in time" in caplog.text


@pytest.mark.parametrize("minor", [1, 2])
def test_before_airflow_3_3_a_pilot_goes_first_and_full_leases_follow(
    bench: Workbench, release: Release, minor: int
) -> None:
    release(3, minor)
    if minor == 1:
        bench.ti = OldTaskInstance()
    bench.put(*"abcde")
    dispatcher = bench.dispatcher(lease_limit=3)
    dispatcher.check_targets()
    dispatcher.drain()

    assert bench.lease_sizes == [1, 3, 3, 3]
    assert len(bench.supervisor.runs) == 5


def test_before_airflow_3_3_a_refused_pilot_is_followed_by_another(
    bench: Workbench, release: Release
) -> None:
    release(3, 1)
    bench.ti = OldTaskInstance()
    bench.put("bad", "b", "c")
    bench.supervisor.refuse("bad", api_error(500))
    dispatcher = bench.dispatcher()
    dispatcher.check_targets()
    dispatcher.drain()

    assert bench.lease_sizes[:3] == [1, 1, 100]
    assert bench.supervisor.started == ["b", "c"]


def test_before_airflow_3_3_a_missing_dag_costs_one_attempt_of_one_message(
    bench: Workbench, release: Release
) -> None:
    release(3, 1)
    bench.ti = OldTaskInstance()
    bench.put("a", "b")
    dispatcher = bench.dispatcher("missing")
    dispatcher.check_targets()

    with pytest.raises(TargetError):
        dispatcher.drain()
    assert bench.lease_sizes == [1]
    assert bench.states == {"a": "available", "b": "available"}


def test_a_target_that_only_sometimes_answers_gets_a_pilot(bench: Workbench) -> None:
    bench.supervisor.fail(api_error(503), times=1)
    bench.put("a", "b")
    dispatcher = bench.dispatcher()
    dispatcher.check_targets()
    dispatcher.drain()

    assert bench.lease_sizes[0] == 1
