"""What becomes of leased messages that have no run: none is held in vain, and none is done twice."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.unit.fake_clock import FakeClock
from tests.unit.workbench import Workbench


def test_a_message_on_its_third_lease_goes_first(bench: Workbench) -> None:
    bench.put("a", "b")
    bench.put("precious", lease_count=2)
    bench.dispatcher().drain(bench.lease())

    assert bench.supervisor.started == ["precious", "a", "b"]
    assert [body["message_ids"] for body in bench.sent("ack")] == [["precious", "a", "b"]]


def test_a_message_on_its_second_lease_goes_with_the_others(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.put("b", lease_count=1)
    bench.dispatcher().drain(bench.lease())

    assert [body["message_ids"] for body in bench.sent("ack")] == [["b", "a"]]
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_what_is_done_is_acknowledged_whatever_ends_the_task(bench: Workbench) -> None:
    bench.put("a", "b")
    bench.supervisor.refuse("b", KeyError("a fault of our own"))

    with pytest.raises(KeyError):
        bench.dispatcher().drain(bench.lease())
    assert bench.states == {"b": "available"}


def test_a_message_without_a_delivery_count_goes_to_the_dag_that_has_its_run(bench: Workbench) -> None:
    bench.supervisor.dags |= {"late", "work"}
    bench.put("a")
    bench.start_before("a", "work")
    lease = bench.lease()
    lease.messages[0]["message_attributes"] = None  # type: ignore[typeddict-item]

    bench.dispatcher({"late": "payload", "work": "payload"}).drain(lease)

    assert list(bench.supervisor.runs) == [("work", bench.run_id("a"))]


def test_a_message_that_comes_again_goes_to_the_dag_that_has_its_run(bench: Workbench) -> None:
    routes = {"late": "message_attributes.lease_count >= `2`", "work": "payload"}
    bench.supervisor.dags |= {"late", "work"}
    bench.put("a")
    bench.lease()
    bench.start_before("a", "work")
    bench.service.store.clock.advance(301)

    dispatcher = bench.dispatcher(routes)
    dispatcher.drain()
    assert list(bench.supervisor.runs) == [("work", bench.run_id("a"))]
    assert dispatcher.counts.result["existing"]["ids"] == ["a"]
    assert bench.states == {}


def test_a_task_does_not_lease_again_what_it_left_to_its_lease(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    def pass_time() -> None:
        fake_clock.advance(61)
        bench.service.store.clock.advance(61)

    bench.supervisor.on_start = pass_time
    bench.put("no", payload={"wanted": False})
    bench.put("yes", payload={"wanted": True})
    bench.dispatcher(match="payload.wanted", lease_limit=1, lease_seconds=60).drain()

    assert bench.supervisor.started == ["yes"]
    assert bench.service.count("lease") == 2
    assert bench.states["no"] == "available"


def test_a_lease_that_says_nothing_of_its_inbox_is_worked_on(bench: Workbench) -> None:
    bench.put("a")
    whole = bench.hook.lease_messages

    def silent(*arguments: Any, **options: Any) -> Any:
        answer: Any = whole(*arguments, **options)
        del answer["inbox_attributes"]
        return answer

    bench.hook.lease_messages = silent  # type: ignore[method-assign]
    bench.dispatcher().drain()
    assert bench.supervisor.started == ["a"]


def test_a_lease_is_no_larger_than_the_pace_of_airflow_allows(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    """Messages that are leased in vain lose a delivery each time, and have about five of them."""
    bench.put(*(f"m{number}" for number in range(60)))
    bench.supervisor.on_start = lambda: fake_clock.advance(2)
    dispatcher = bench.dispatcher(lease_seconds=60)
    dispatcher.drain()

    # In half of the 30 s in which a lease of 60 s may start runs.
    assert bench.lease_sizes[:3] == [1, 7, 7]
    assert len(bench.supervisor.started) == len(set(bench.supervisor.started)) == 60
    assert bench.states == {}


def test_a_lease_that_began_slowly_is_followed_by_larger_ones(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    bench.put(*(f"m{number}" for number in range(110)))
    pauses = iter([40.0, *[0.1] * 109])
    bench.supervisor.on_start = lambda: fake_clock.advance(next(pauses))
    bench.dispatcher(lease_seconds=60).drain()

    assert bench.lease_sizes[:3] == [1, 1, 100]
