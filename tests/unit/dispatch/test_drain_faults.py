"""Dispatch through faults, interruptions and expired leases: what is released, and what continues."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from airflow_provider_workflow.client.errors import InvalidRequestError, ServerError
from airflow_provider_workflow.dispatch.results import DrainEnd
from airflow_provider_workflow.dispatch.run_errors import TargetError
from tests.unit.fake_clock import FakeClock
from tests.unit.fakes import api_error, lost
from tests.unit.workbench import TaskTimeout, Workbench, with_counts


@pytest.mark.parametrize("error", [api_error(400, "value_error"), api_error(500)])
def test_a_rejected_message_is_neither_acknowledged_nor_released_and_the_others_go_on(
    bench: Workbench, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    bench.supervisor.refuse("bad", error)
    bench.put("a", "bad", "b")
    dispatcher = bench.dispatcher()
    dispatcher.drain()

    assert bench.supervisor.started == ["a", "b"]
    assert bench.states == {"bad": "leased"}
    assert bench.service.count("release") == 0
    assert dispatcher.counts.result["rejected"] == {"count": 1, "ids": ["bad"]}
    assert list(dispatcher.counts.causes) == ["bad"]
    assert "message bad was rejected" in caplog.text


def test_a_fault_of_everything_releases_what_has_no_run(bench: Workbench) -> None:
    bench.put("other", payload={"wanted": False})
    bench.put("a", "b", "c", payload={"wanted": True})
    bench.supervisor.refuse("b", api_error(404, "not_found"))

    with pytest.raises(TargetError):
        bench.dispatcher(match="payload.wanted").drain(bench.lease())
    assert bench.supervisor.started == ["a"]
    assert bench.states == {"other": "leased", "b": "leased", "c": "available"}
    assert bench.service.count("lease") == 1


def test_an_airflow_that_cannot_be_asked_after_its_5xx_is_at_fault_itself(bench: Workbench) -> None:
    bench.put(*"abc")
    bench.supervisor.refuse("b", api_error(500))
    bench.ti.on_look = Mock(side_effect=api_error(503))
    with pytest.raises(TargetError, match="does not count"):
        bench.dispatcher().drain(bench.lease())
    assert bench.states == {"b": "leased", "c": "available"}


def test_a_failed_release_does_not_hide_the_fault(bench: Workbench, caplog: pytest.LogCaptureFixture) -> None:
    bench.put("a", "b")
    bench.supervisor.fail(api_error(404))
    bench.service.fault("status", operation="release", status=503, times=None)

    with pytest.raises(TargetError):
        bench.dispatcher().drain(bench.lease())
    assert "1 message is redelivered when the lease expires" in caplog.text


def test_a_lease_held_up_by_the_rate_gate_starts_its_runs(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put("a")
    headers = {"Retry-After": "40"}
    bench.service.fault("status", operation="lease", status=429, headers=headers, times=1)
    bench.dispatcher(lease_seconds=60).drain()

    assert fake_clock.elapsed < 60
    assert bench.supervisor.started == ["a"]


def test_a_task_that_times_out_in_its_check_releases_the_hand_off(bench: Workbench) -> None:
    bench.put("a")
    lease = bench.lease()
    bench.ti.get_dag = Mock(side_effect=TaskTimeout)  # type: ignore[method-assign]

    with pytest.raises(TaskTimeout):
        bench.dispatcher().drain(lease)
    assert bench.states == {"a": "available"}


def test_a_task_that_is_ended_while_it_starts_a_run_releases_its_message(bench: Workbench) -> None:
    bench.supervisor.on_start = Mock(side_effect=TaskTimeout)
    bench.put("a", "b")

    with pytest.raises(TaskTimeout):
        bench.ready_dispatcher().drain()
    assert bench.states == {"a": "available", "b": "available"}, "a is redelivered, and finds its run"


def test_a_task_that_is_ended_while_it_starts_a_dead_letter_releases_its_message(bench: Workbench) -> None:
    def look() -> None:
        if bench.supervisor.requests:
            raise TaskTimeout

    bench.allow_dead_letters()
    bench.put("a", lease_count=3)
    bench.supervisor.refuse("a", api_error(400, "import_errors"))
    bench.ti.on_look = look

    with pytest.raises(TaskTimeout):
        bench.ready_dispatcher().drain()
    assert bench.dead_letters == {}
    assert bench.states == {"a": "available"}


def test_a_task_that_is_ended_after_a_broken_target_releases_the_rest(bench: Workbench) -> None:
    bench.allow_dead_letters()
    bench.put("a", "b", lease_count=3)
    bench.put("c")
    dispatcher = bench.ready_dispatcher(lease_limit=3)
    bench.ti.on_look = Mock(side_effect=[lost("ConnectError"), TaskTimeout])

    with pytest.raises(TaskTimeout):
        dispatcher.drain()
    assert bench.states == {"a": "leased", "b": "available", "c": "available"}


@pytest.mark.parametrize("call", ["lease_messages", "acknowledge_messages"])
def test_a_task_that_is_ended_during_a_call_of_the_service_starts_nothing_more(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    dispatcher, sound = bench.ready_dispatcher(lease_limit=1), getattr(bench.hook, call)

    def killed(*arguments: Any) -> Any:
        dispatcher.task.killed_by = TaskTimeout()
        return sound(*arguments)

    bench.put("a", "b")
    monkeypatch.setattr(bench.hook, call, killed)

    with pytest.raises(TaskTimeout):
        dispatcher.drain()
    assert bench.supervisor.started == ["a"] * (call != "lease_messages")
    assert set(bench.states.values()) == {"available"}


def test_a_task_that_times_out_while_it_acknowledges_does_so_in_a_hurry(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, ends = type(bench.hook).acknowledge_messages, iter([TaskTimeout()])

    def interrupted(*arguments: Any) -> Any:
        for end in ends:
            raise end
        return sound(*arguments)

    bench.put("a", "b")
    monkeypatch.setattr(type(bench.hook), "acknowledge_messages", interrupted)

    with pytest.raises(TaskTimeout):
        bench.dispatcher().drain()
    assert bench.states == {"b": "available"}


def test_an_acknowledgement_that_the_service_rejects_holds_up_no_other(bench: Workbench) -> None:
    bench.put("a", "b")
    bench.service.fault("status", operation="ack", status=400, times=2)

    with pytest.raises(InvalidRequestError):
        bench.dispatcher(lease_limit=1).drain()
    assert bench.states == {"a": "leased"}


def test_what_is_done_is_acknowledged_whatever_ends_the_task(bench: Workbench) -> None:
    bench.put("a", "b")
    bench.supervisor.refuse("b", KeyError("a fault of our own"))

    with pytest.raises(KeyError):
        bench.dispatcher().drain(bench.lease())
    assert bench.states == {"b": "available"}


@pytest.mark.parametrize("count", [2, None])
def test_a_redelivered_message_goes_to_the_dag_with_its_run(bench: Workbench, count: int | None) -> None:
    bench.supervisor.dags |= {"late", "work"}
    bench.put("a")
    bench.start_before("a", "work")
    lease = with_counts(bench.lease(), {"a": count})

    dispatcher = bench.dispatcher({"late": "payload", "work": "payload"})
    dispatcher.drain(lease)
    assert list(bench.supervisor.runs) == [("work", bench.run_id("a"))]
    assert dispatcher.counts.result["existing"]["ids"] == ["a"]
    assert bench.states == {}


def test_what_was_left_to_its_lease_is_not_leased_again(bench: Workbench, fake_clock: FakeClock) -> None:
    fake_clock.moved_along.append(bench.service.store.clock)  # type: ignore[arg-type]
    bench.supervisor.on_start = lambda: fake_clock.advance(61)
    bench.put("no", payload={"wanted": False})
    bench.put("yes", payload={"wanted": True})
    bench.dispatcher(match="payload.wanted", lease_limit=1, lease_seconds=60).drain()

    assert bench.supervisor.started == ["yes"]
    assert bench.service.count("lease") == 2
    assert bench.states["no"] == "available"


def test_a_lease_is_as_large_as_the_pace_of_airflow_allows(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put(*(f"m{number}" for number in range(60)))
    bench.supervisor.on_start = lambda: fake_clock.advance(2)
    dispatcher = bench.dispatcher(lease_seconds=60)
    dispatcher.drain()

    # In half of the 30 s in which a lease of 60 s may start runs.
    assert bench.lease_sizes[:5] == [1, 2, 4, 7, 7]
    assert len(bench.supervisor.started) == len(set(bench.supervisor.started)) == 60
    assert bench.states == {}


def test_after_a_lease_that_began_slowly_larger_ones_follow(bench: Workbench, fake_clock: FakeClock) -> None:
    bench.put(*(f"m{number}" for number in range(110)))
    pauses = iter([40.0, *[0.1] * 109])
    bench.supervisor.on_start = lambda: fake_clock.advance(next(pauses))
    bench.dispatcher(lease_seconds=60).drain()

    assert bench.lease_sizes[:5] == [1, 1, 2, 4, 8]


def test_a_slow_check_of_the_source_costs_no_rejected_message_its_lease(
    bench: Workbench, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.allow_dead_letters()
    bench.supervisor.refuse("last", api_error(400, "value_error"))
    bench.put("last", lease_count=3)
    look_up = bench.hook.get_inbox
    monkeypatch.setattr(bench.hook, "get_inbox", lambda inbox: fake_clock.advance(31) or look_up(inbox))

    with pytest.raises(TargetError):
        bench.dispatcher(lease_seconds=60).drain()
    assert [conf["reason"] for conf in bench.dead_letters.values()] == ["target"]


def test_an_unchecked_source_fails_no_drain(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put("a", "b")
    dispatcher = bench.dispatcher(max_messages=1)
    bench.supervisor.on_start = lambda: monkeypatch.setattr(bench.hook, "get_inbox", away)
    away = Mock(side_effect=ServerError("away", status=503))

    assert dispatcher.drain() is DrainEnd.LIMIT
    assert (away.call_count, dispatcher.unreachable) == (1, None)


def test_messages_without_an_id_keep_no_others_from_their_runs(bench: Workbench) -> None:
    answer = {"lease_id": "x", "results": [{"id": None, "payload": {}}]}
    bench.service.fault("status", operation="lease", status=200, json=answer, times=2)
    bench.put("a")
    bench.dispatcher().drain()

    assert bench.supervisor.started == ["a"]


def test_a_possible_duplicate_of_a_dead_letter_starts_no_run(bench: Workbench) -> None:
    bench.allow_dead_letters(after=1)
    for payload, is_duplicate in (("text", False), ({}, True)):
        bench.put("a", payload=payload, possible_duplicate_data=is_duplicate)
        bench.dispatcher(match="abs(payload) > `0`" if payload else None).drain()

    assert [dag_id for dag_id, _ in bench.supervisor.runs] == ["dead"]
