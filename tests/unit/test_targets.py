"""No delivery is spent on a broken target: it is checked first, then tried with one message, for an hour if
need be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.rejections import TargetError
from airflow_provider_workflow.dispatch.targets import STORE_KEY
from airflow_provider_workflow.emulator.clock import ManualClock
from tests.unit.fakes import api_error, lost
from tests.unit.workbench import Workbench

REJECTED = api_error(
    400, "value_error", "Invalid input for param customer: No value passed and Param is required"
)


def attempt(bench: Workbench, **limits: Any) -> Any:
    """One try of a task: what it dispatched, or how it failed."""
    dispatcher = bench.dispatcher(**limits)
    try:
        dispatcher.check_targets()
        dispatcher.drain()
    except TargetError as error:
        return error
    finally:
        bench.ti.try_number += 1
    return dispatcher.counts.result


def test_the_first_lease_of_a_process_is_one_message(bench: Workbench) -> None:
    bench.put(*"abc")
    attempt(bench)

    assert [(each["lease_limit"], each["lease_seconds"]) for each in bench.sent("lease")][:2] == [
        (1, 300),
        (100, 300),
    ]
    assert bench.supervisor.started == [*"abc"]


def test_a_check_starts_nothing_and_asks_for_the_dag_alone(bench: Workbench) -> None:
    dispatcher = bench.dispatcher()
    for _ in range(3):
        dispatcher.check_targets()

    assert bench.supervisor.asked == []
    assert bench.ti.dags_asked == ["handle"]  # type: ignore[attr-defined]


def test_nothing_is_leased_for_a_dag_that_is_missing(bench: Workbench) -> None:
    bench.put("a")
    dispatcher = bench.dispatcher({"handle": "payload.x", "missing": "payload"})

    with pytest.raises(TargetError, match=r"'missing' was not found\. Deploy it"):
        dispatcher.check_targets()
    assert bench.service.count("lease") == 0


@pytest.mark.parametrize("error", [api_error(500), lost("ConnectError")])
def test_nothing_is_leased_where_airflow_cannot_check(bench: Workbench, error: Any) -> None:
    bench.ti.dag_fault = error  # type: ignore[attr-defined]

    with pytest.raises(TargetError):
        bench.dispatcher().check_targets()
    assert bench.store.rows == {STORE_KEY: "1"}


@pytest.mark.since(3, 3, "the task state store, and a thorough check")
@pytest.mark.parametrize(
    "answer",
    [
        api_error(
            400, "value_error", "Timetable class 'my.Timetable' is not registered or you have a top level"
        ),
        api_error(404, "not_found"),
        api_error(500),
    ],
    ids=["timetable", "stale", "500"],
)
def test_a_target_that_stays_broken_costs_its_messages_one_delivery(
    bench: Workbench, clock: ManualClock, answer: Any
) -> None:
    bench.put("a")
    bench.supervisor.fail(answer)
    for _ in range(30):
        assert isinstance(attempt(bench), TargetError)
        clock.advance(600)

    assert bench.service.count("lease") == 1
    bench.supervisor.faults.clear()
    assert attempt(bench)["started"]["ids"] == ["a"]
    assert bench.states == {}
    assert bench.store.rows == {}, "the next try begins as the first did"


@pytest.mark.parametrize("waiting", [1, 3, 20])
def test_params_that_reject_every_conf_for_an_hour_quarantine_nothing(
    bench: Workbench, clock: ManualClock, waiting: int
) -> None:
    ids = [f"m{number}" for number in range(waiting)]
    bench.put(*ids)
    bench.supervisor.refuse("", REJECTED)
    for _ in range(12):
        error = attempt(bench)
        if bench.service.count("lease") and isinstance(error, TargetError):
            assert "Invalid input for param customer: no value passed" in str(error)
        clock.advance(300)
    assert "quarantined" not in bench.states.values()

    bench.supervisor.faults.clear()
    for _ in range(3):
        attempt(bench)
        clock.advance(3600)
    assert sorted(bench.supervisor.started) == sorted(ids)
    assert bench.states == {}


def test_a_try_after_a_broken_target_leases_one_message_for_an_hour_until_a_run_starts(
    bench: Workbench,
) -> None:
    bench.put(*"abc")
    bench.supervisor.refuse("", REJECTED)
    attempt(bench)
    bench.supervisor.faults.clear()
    attempt(bench)

    sent = [(each["lease_limit"], each["lease_seconds"]) for each in bench.sent("lease")]
    assert sent[:3] == [(1, 300), (1, 3600), (100, 300)]
    assert bench.supervisor.started == ["b", "c"], "the first is leased by the try before"


def test_the_message_that_shows_a_broken_target_stays_leased(bench: Workbench) -> None:
    bench.put(*"abc")
    bench.supervisor.refuse("", REJECTED)

    with pytest.raises(TargetError, match="before this task had started any"):
        bench.dispatcher().drain(bench.lease())
    assert bench.states == {"a": "leased", "b": "available", "c": "available"}


def test_a_run_that_exists_is_no_proof_that_the_target_takes_others(bench: Workbench) -> None:
    bench.put(*"abc")
    bench.supervisor.runs["handle", bench.run_id("a")] = {}
    bench.supervisor.refuse("b", REJECTED)

    with pytest.raises(TargetError):
        bench.dispatcher().drain(bench.lease())
    assert bench.states == {"b": "leased", "c": "available"}


@pytest.mark.since(3, 3, "the task state store")
def test_a_run_that_exists_does_not_end_the_care_after_a_broken_target(bench: Workbench) -> None:
    bench.put(*"abcd")
    bench.supervisor.runs["handle", bench.run_id("a")] = {}
    bench.supervisor.refuse("b", REJECTED)
    bench.store.rows[STORE_KEY] = "1"
    bench.ti.try_number = 2

    assert isinstance(attempt(bench), TargetError)
    assert [(each["lease_limit"], each["lease_seconds"]) for each in bench.sent("lease")] == [(1, 3600)] * 2


def test_a_process_that_goes_on_after_a_broken_target_is_careful(bench: Workbench) -> None:
    bench.put(*"abc")
    bench.supervisor.refuse("", REJECTED)
    dispatcher = bench.dispatcher()
    with pytest.raises(TargetError):
        dispatcher.drain()

    assert dispatcher.next_lease() == (1, 3600)


@pytest.mark.since(3, 3, "the task state store")
def test_the_first_try_is_careful_as_well_once_it_found_a_broken_target(bench: Workbench) -> None:
    bench.store.rows[STORE_KEY] = "1"
    dispatcher = bench.dispatcher()
    dispatcher.check_targets()

    assert dispatcher.next_lease() == (1, 3600)


@pytest.mark.since(3, 3, "the task state store")
def test_a_kill_is_no_broken_target(bench: Workbench) -> None:
    bench.put(*"ab")
    bench.ti.try_number = 2
    attempt(bench)

    assert bench.sent("lease")[0]["lease_seconds"] == 300
    assert all("check" not in each.run_id for each in bench.supervisor.asked)


def test_without_a_task_state_store_every_further_try_is_careful(bench: Workbench, release: Any) -> None:
    release(3, 2)
    bench.put(*"ab")
    bench.ti.try_number = 2
    dispatcher = bench.dispatcher()
    dispatcher.targets.history.context = {"ti": bench.ti}
    dispatcher.check_targets()

    assert dispatcher.next_lease() == (1, 3600)


@pytest.mark.since(3, 3, "a thorough check")
@pytest.mark.parametrize(("state", "seconds"), [("failed", 3600), ("success", 300), (None, 300)])
def test_the_first_try_after_a_failed_dag_run_is_careful(
    bench: Workbench, state: str | None, seconds: int
) -> None:
    bench.ti.previous_dagrun = state and SimpleNamespace(state=state)  # type: ignore[attr-defined]
    dispatcher = bench.dispatcher()
    dispatcher.targets.history.context = {"dag_run": SimpleNamespace(logical_date=1), **bench.context}
    dispatcher.check_targets()

    assert dispatcher.next_lease() == (1, seconds)
    assert bool(bench.supervisor.asked) == (state == "failed"), "a thorough check"


@pytest.mark.parametrize(("failed", "seconds"), [(1, 3600), (0, 300)])
def test_a_dag_run_without_a_date_leases_its_pilot_for_longer_where_runs_of_its_dag_have_failed(
    bench: Workbench, failed: int, seconds: int
) -> None:
    bench.ti.failed_runs = failed
    dispatcher = bench.dispatcher()
    dispatcher.check_targets()

    assert dispatcher.next_lease() == (1, seconds)
    assert bench.supervisor.asked == [], "nothing is known, so nothing is checked with an error line"


def test_the_command_line_remembers_nothing_and_leases_its_pilot_for_longer(bench: Workbench) -> None:
    bench.put(*"ab")
    dispatcher = bench.dispatcher()
    dispatcher.targets.history.context = {}
    dispatcher.check_targets()
    dispatcher.drain()

    sent = [(each["lease_limit"], each["lease_seconds"]) for each in bench.sent("lease")]
    assert sent[:2] == [(1, 3600), (100, 300)]


@pytest.mark.parametrize("waiting", [1, 3])
def test_a_target_that_stays_broken_through_dag_runs_without_a_date_quarantines_nothing_for_hours(
    bench: Workbench, clock: ManualClock, waiting: int
) -> None:
    bench.put(*[f"m{number}" for number in range(waiting)])
    bench.supervisor.refuse("", REJECTED)
    for _ in range(20):
        attempt(bench)
        bench.ti.try_number = 1
        bench.store.rows.clear()
        bench.ti.failed_runs += 1
        clock.advance(700)

    assert "quarantined" not in bench.states.values()


def test_one_broken_target_of_two_costs_each_try_one_of_its_messages(bench: Workbench) -> None:
    bench.supervisor.dags = {"good", "bad"}
    bench.put("b1", "b2", payload={"to": "bad"})
    bench.put(*"xyz", payload={"to": "good"})
    routes = {"bad": "payload.to == 'bad'", "good": "payload"}
    bench.supervisor.faults.append(lambda asked: REJECTED if asked.dag_id == "bad" and asked.conf else None)
    results = []
    for _ in range(3):
        dispatcher = bench.dispatcher(routes)
        try:
            dispatcher.check_targets()
            results.append(dispatcher.drain())
        except TargetError as error:
            results.append(error)
        bench.ti.try_number += 1

    assert [isinstance(each, TargetError) for each in results] == [True, True, False]
    assert bench.supervisor.started == [*"xyz"]
    assert bench.states == {"b1": "leased", "b2": "leased"}
