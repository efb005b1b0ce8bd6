"""Faults of one message let the others go on; faults of everything stop, release, and raise."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_workflow.run_faults import TargetError
from tests.unit.fakes import api_error, lost
from tests.unit.workbench import Workbench

DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]


@pytest.mark.parametrize("error", [api_error(400, "value_error"), api_error(422), api_error(500)])
def test_a_refused_message_is_neither_acknowledged_nor_released_and_the_others_go_on(
    bench: Workbench, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    bench.supervisor.refuse("bad", error)
    bench.put("a", "bad", "b")
    dispatcher = bench.dispatcher()
    dispatcher.check_targets()
    dispatcher.drain()

    assert bench.supervisor.started == ["a", "b"]
    assert bench.states == {"bad": "leased"}
    assert bench.service.count("release") == 0
    assert dispatcher.tally.result["refused"] == {"count": 1, "ids": ["bad"]}
    assert "message bad was refused" in caplog.text


@pytest.mark.parametrize("payload", ["\ud800", 2**70, {"deep": DEEP}, [float("inf")]])
def test_a_payload_that_airflow_cannot_hold_is_of_that_message(bench: Workbench, payload: Any) -> None:
    bench.put("bad", payload=payload)
    bench.put("b")
    dispatcher = bench.dispatcher()
    dispatcher.drain()

    assert bench.supervisor.started == ["b"]
    assert bench.states == {"bad": "leased"}
    assert "Airflow cannot hold its payload" in dispatcher.tally.causes["bad"]


def test_an_expression_that_fails_on_a_message_is_of_that_message(bench: Workbench) -> None:
    bench.put("bad", payload={"v": 1})
    bench.put("b", payload={"v": "text"})
    dispatcher = bench.dispatcher(match="length(payload.v)")
    dispatcher.drain()

    assert bench.supervisor.started == ["b"]
    assert "match cannot be evaluated" in dispatcher.tally.causes["bad"]


def test_a_message_refused_on_its_last_lease_is_an_error_line(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.supervisor.refuse("bad", api_error(422))
    bench.put("bad", lease_count=4)
    bench.dispatcher().drain()

    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "message bad was refused on its last lease" in record.getMessage()


@pytest.mark.parametrize(
    "error",
    [
        api_error(404, "not_found"),
        api_error(400, "import_errors"),
        api_error(400, "denied_run_type"),
        api_error(403),
        lost("ConnectError"),
        BrokenPipeError(),
    ],
)
def test_a_fault_of_everything_releases_what_is_held_and_acknowledges_what_has_its_run(
    bench: Workbench, error: Exception
) -> None:
    bench.put("a", "b", "c")
    bench.supervisor.refuse("b", error)

    with pytest.raises(TargetError):
        bench.dispatcher().work_on(bench.lease())
    assert bench.supervisor.started == ["a"]
    assert bench.states == {"b": "available", "c": "available"}
    assert bench.service.count("lease") == 1


def test_two_5xx_in_a_row_are_of_everything(bench: Workbench) -> None:
    bench.put("a", "b", "c", "d")
    bench.supervisor.refuse("b", api_error(500))
    bench.supervisor.refuse("c", lost("HTTPStatusError"))
    dispatcher = bench.dispatcher()

    with pytest.raises(TargetError, match="twice in a row"):
        dispatcher.work_on(bench.lease())
    assert bench.states == {"b": "leased", "c": "available", "d": "available"}
    assert dispatcher.tally.result["refused"]["ids"] == ["b"]


@pytest.mark.parametrize("between", ["started", "refused"])
def test_two_5xx_with_another_answer_between_are_of_two_messages(bench: Workbench, between: str) -> None:
    bench.put("a", "b", "c")
    bench.supervisor.refuse("a", api_error(500))
    bench.supervisor.refuse("c", api_error(500))
    if between == "refused":
        bench.supervisor.refuse("b", api_error(422))
    dispatcher = bench.dispatcher()
    dispatcher.work_on(bench.lease())

    assert dispatcher.tally.result["refused"]["count"] == (2 if between == "started" else 3)


@pytest.mark.parametrize("between", [1, ["\ud800"]], ids=["an expression fails on it", "no run can hold it"])
def test_what_was_never_sent_does_not_come_between_two_5xx(bench: Workbench, between: Any) -> None:
    bench.put("a", payload={"v": [""]})
    bench.put("b", payload={"v": between})
    bench.put("c", payload={"v": [""]})
    bench.supervisor.fail(api_error(500))

    with pytest.raises(TargetError, match="twice in a row"):
        bench.dispatcher(match="length(payload.v) == `1`").work_on(bench.lease())


def test_a_target_that_refuses_all_is_at_fault_itself_and_costs_the_rest_one_lease(bench: Workbench) -> None:
    bench.put(*(f"m{number}" for number in range(30)))
    bench.supervisor.refuse("m", api_error(400, "value_error"))

    with pytest.raises(
        TargetError, match=r"refused the first 10 .*: made up. .*No message is lost"
    ) as raised:
        bench.dispatcher().work_on(bench.lease())
    assert "payload" not in str(raised.value)
    assert list(bench.states.values()).count("leased") == 9
    assert list(bench.states.values()).count("available") == 21


@pytest.mark.parametrize("taken", ["started", "existing"])
def test_refusals_are_of_messages_where_any_run_was_taken(bench: Workbench, taken: str) -> None:
    bench.put("good", *(f"bad{number}" for number in range(20)))
    bench.supervisor.refuse("bad", api_error(400, "value_error"))
    if taken == "existing":
        bench.supervisor.runs["handle", "workflow__good"] = {}
    dispatcher = bench.dispatcher()
    dispatcher.work_on(bench.lease())

    assert dispatcher.tally.result["refused"]["count"] == 20
    assert dispatcher.tally.result[taken]["count"] == 1


def test_what_airflow_was_never_asked_is_no_fault_of_the_target(bench: Workbench) -> None:
    bench.put(*(f"bad{number}" for number in range(20)), payload="\ud800")
    dispatcher = bench.dispatcher()
    dispatcher.work_on(bench.lease())

    assert dispatcher.tally.result["refused"]["count"] == 20


@pytest.mark.since(3, 3, "a check of the target that is certain")
def test_a_task_that_is_tried_again_begins_with_one_message(bench: Workbench) -> None:
    bench.put("a", "b", "c")
    bench.ti.try_number = 2
    dispatcher = bench.dispatcher()
    dispatcher.check_targets()
    dispatcher.drain()

    assert bench.lease_sizes == [1, 100, 100]
    assert bench.supervisor.started == ["a", "b", "c"]


def test_what_matches_nothing_is_not_released_with_the_others(bench: Workbench) -> None:
    bench.put("other", payload={"wanted": False})
    bench.put("a", payload={"wanted": True})
    bench.supervisor.fail(api_error(404))

    with pytest.raises(TargetError):
        bench.dispatcher(match="payload.wanted").work_on(bench.lease())
    assert bench.states == {"other": "leased", "a": "available"}


def test_a_release_that_fails_does_not_hide_the_fault(
    bench: Workbench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.supervisor.fail(api_error(404))
    bench.service.fault("status", operation="release", status=503, times=None)

    with pytest.raises(TargetError):
        bench.dispatcher().work_on(bench.lease())
    assert "1 messages come again when their lease ends" in caplog.text


def test_nothing_is_leased_for_a_dag_that_is_missing(bench: Workbench) -> None:
    bench.put("a")

    with pytest.raises(TargetError):
        bench.dispatcher({"handle": "payload.x", "missing": "payload"}).check_targets()
    assert bench.service.count("lease") == 0
