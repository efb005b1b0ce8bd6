"""Faults of one message let the others go on; faults of everything stop, release, and raise."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.dispatch.run_errors import TargetError
from tests.unit.fakes import api_error, lost
from tests.unit.workbench import Workbench


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
    assert "message bad was rejected" in caplog.text


def test_an_expression_that_fails_on_a_message_is_of_that_message(bench: Workbench) -> None:
    bench.put("bad", payload={"v": 1})
    bench.put("b", payload={"v": "text"})
    dispatcher = bench.dispatcher(match="length(payload.v)")
    dispatcher.drain()

    assert bench.supervisor.started == ["b"]
    assert "match cannot be evaluated" in dispatcher.counts.causes["bad"]


@pytest.mark.parametrize(
    "error",
    [api_error(404, "not_found"), lost("ConnectError")],
)
def test_a_fault_of_everything_releases_what_is_held_and_acknowledges_what_has_its_run(
    bench: Workbench, error: Exception
) -> None:
    bench.put("a", "b", "c")
    bench.supervisor.refuse("b", error)

    with pytest.raises(TargetError):
        bench.dispatcher().drain(bench.lease())
    assert bench.supervisor.started == ["a"]
    assert bench.states == {"b": "leased", "c": "available"}
    assert bench.service.count("lease") == 1


def test_messages_behind_rejected_ones_start_at_once_in_a_drain_that_has_started_a_run(
    bench: Workbench,
) -> None:
    bad, good = [f"bad{number}" for number in range(8)], [f"good{number}" for number in range(72)]
    bench.put("first", *bad, *good)
    bench.supervisor.refuse("bad", lost("HTTPStatusError"))
    bench.dispatcher().drain()

    assert sorted(bench.supervisor.started) == sorted(["first", *good])
    assert bench.states == dict.fromkeys(bad, "leased")


def test_the_highest_delivery_count_goes_first_whatever_is_rejected(bench: Workbench) -> None:
    bench.put("good1", "good2")
    bench.put("bad1", "bad2", lease_count=2)
    bench.put("good3", lease_count=1)
    bench.supervisor.refuse("bad", api_error(400, "value_error"))
    bench.ready_dispatcher(lease_limit=100).drain()

    asked = [each.conf["message"]["id"] for each in bench.supervisor.asked if each.conf]
    assert asked == ["bad1", "bad2", "good3", "good1", "good2"]


def test_an_airflow_that_cannot_be_asked_after_its_5xx_is_at_fault_itself(bench: Workbench) -> None:
    bench.put(*"abc")
    bench.supervisor.refuse("b", api_error(500))

    def fail(dag_id: str, states: Any = None, run_ids: Any = None) -> int:
        raise api_error(503)

    bench.ti.get_dr_count = fail  # type: ignore[method-assign]
    with pytest.raises(TargetError, match="does not count"):
        bench.dispatcher().drain(bench.lease())
    assert bench.states == {"b": "leased", "c": "available"}


def test_what_matches_nothing_is_not_released_with_the_others(bench: Workbench) -> None:
    bench.put("other", payload={"wanted": False})
    bench.put("a", "b", payload={"wanted": True})
    bench.supervisor.fail(api_error(404))

    with pytest.raises(TargetError):
        bench.dispatcher(match="payload.wanted").drain(bench.lease())
    assert bench.states == {"other": "leased", "a": "leased", "b": "available"}


def test_a_release_that_fails_does_not_hide_the_fault(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a", "b")
    bench.supervisor.fail(api_error(404))
    bench.service.fault("status", operation="release", status=503, times=None)

    with pytest.raises(TargetError):
        bench.dispatcher().drain(bench.lease())
    assert "1 messages are redelivered when their lease expires" in caplog.text


def test_nothing_is_leased_for_a_dag_that_is_missing(bench: Workbench) -> None:
    bench.put("a")

    with pytest.raises(TargetError):
        bench.dispatcher({"handle": "payload.x", "missing": "payload"}).drain()
    assert bench.service.count("lease") == 0
