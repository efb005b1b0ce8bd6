"""Starting a run, checking a DAG: which fault is of one message, and which of everything."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse, OKResponse
from pydantic import ValidationError

from airflow_provider_workflow.dispatch.rejections import (
    RunRejected,
    ServerFault,
    TargetError,
    reason_without_values,
)
from airflow_provider_workflow.dispatch.runs import Start, TaskRuns
from tests.unit.fakes import Supervisor, TaskInstance, api_error, lost, unwrapped

RUNS = TaskRuns(TaskInstance())


def test_a_new_run_is_started_with_its_conf(supervisor: Supervisor) -> None:
    assert RUNS.start("handle", "workflow__1", {"message": 1}) is Start.STARTED
    assert supervisor.runs == {("handle", "workflow__1"): {"message": 1}}


def test_a_run_that_exists_counts_as_existing(supervisor: Supervisor) -> None:
    RUNS.start("handle", "workflow__1", {})

    assert RUNS.start("handle", "workflow__1", {}) is Start.EXISTING


@pytest.mark.parametrize(
    ("payload", "cause"),
    [("\ud800", "surrogate"), (2**70, "64 bits"), (float("nan"), "not finite")],
)
def test_what_airflow_cannot_encode_is_refused_before_it_is_sent(
    supervisor: Supervisor, payload: Any, cause: str
) -> None:
    with pytest.raises(RunRejected, match=cause):
        RUNS.start("handle", "workflow__1", {"message": payload})
    assert supervisor.asked == []


@pytest.mark.parametrize("error", [UnicodeEncodeError("utf-8", "", 0, 1, ""), RecursionError()])
def test_what_fails_while_it_is_encoded_is_refused(supervisor: Supervisor, error: Exception) -> None:
    supervisor.fail(error)

    with pytest.raises(RunRejected, match=type(error).__name__):
        RUNS.start("handle", "workflow__1", {})


@pytest.mark.parametrize(
    "error",
    [api_error(400, "value_error"), api_error(422), api_error(400), lost("PydanticSerializationError")],
)
def test_a_refusal_of_one_run_is_of_one_message(supervisor: Supervisor, error: Exception) -> None:
    supervisor.fail(error)

    with pytest.raises(RunRejected) as caught:
        RUNS.start("handle", "workflow__1", {})
    assert not isinstance(caught.value, ServerFault)


@pytest.mark.parametrize("error", [api_error(500), api_error(503), lost("HTTPStatusError")])
def test_a_5xx_may_be_of_one_message_or_of_everything(supervisor: Supervisor, error: Exception) -> None:
    supervisor.fail(error)

    with pytest.raises(ServerFault):
        RUNS.start("handle", "workflow__1", {})


@pytest.mark.parametrize(
    "error",
    [
        api_error(404, "not_found"),
        api_error(400, "import_errors"),
        api_error(400, "denied_run_type"),
        api_error(401),
        api_error(403),
        api_error(429),
        lost("ConnectError"),
        AirflowRuntimeError(ErrorResponse(error=ErrorType.GENERIC_ERROR, detail=None)),
        BrokenPipeError(),
    ],
)
def test_a_missing_or_broken_dag_and_a_lost_server_are_of_everything(
    supervisor: Supervisor, error: Exception
) -> None:
    supervisor.fail(error)

    with pytest.raises(TargetError):
        RUNS.start("handle", "workflow__1", {})


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (unwrapped(404, "not_found"), TargetError),
        (unwrapped(400, "value_error"), RunRejected),
        (unwrapped(500), ServerFault),
    ],
)
def test_in_a_dag_test_the_same_answers_mean_the_same(
    supervisor: Supervisor, error: Exception, meaning: type[Exception]
) -> None:
    supervisor.fail(error)

    with pytest.raises(meaning):
        RUNS.start("handle", "workflow__1", {})


def test_a_thread_may_talk_to_airflow_only_where_its_answers_are_kept_apart(supervisor: Supervisor) -> None:
    assert RUNS.alongside

    del supervisor._thread_lock
    assert not RUNS.alongside


def test_an_error_that_airflow_returns_instead_of_raising_is_of_everything(supervisor: Supervisor) -> None:
    supervisor.fail(ErrorResponse(error=ErrorType.GENERIC_ERROR))

    with pytest.raises(TargetError, match="handle"):
        RUNS.start("handle", "workflow__1", {})


def test_an_error_text_says_that_no_message_is_lost_and_what_to_do(supervisor: Supervisor) -> None:
    with pytest.raises(TargetError, match=r"'missing' was not found\. Deploy it, .*no message is lost"):
        RUNS.start("missing", "workflow__1", {})


def test_a_check_asks_for_the_dag_and_nothing_else(supervisor: Supervisor) -> None:
    ti = TaskInstance(supervisor=supervisor)
    TaskRuns(ti).check_target("handle")

    assert (ti.dags_asked, supervisor.asked) == (["handle"], [])
    with pytest.raises(TargetError):
        TaskRuns(ti).check_target("missing")


@pytest.mark.since(3, 3, "a thorough check")
def test_a_thorough_check_passes_where_airflow_rejects_the_run_id(supervisor: Supervisor) -> None:
    TaskRuns(TaskInstance()).check_target("handle", thorough=True)

    [asked] = supervisor.asked
    assert ".." in asked.run_id
    assert len(asked.run_id) > 250, "no database but SQLite stores it, whatever the configuration is"
    assert supervisor.runs == {}


@pytest.mark.since(3, 3, "a thorough check")
@pytest.mark.parametrize(
    ("dots", "pattern", "asked"),
    [("False", ".*", 1), ("True", "^[a-z]+$", 1), ("True", "^[A-Za-z].*$", 0), ("True", ".*", 0)],
)
def test_a_thorough_check_is_left_out_where_airflow_would_accept_any_run_id(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, dots: str, pattern: str, asked: int
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__ALLOW_DOUBLE_DOT_IN_IDS", dots)
    monkeypatch.setenv("AIRFLOW__SCHEDULER__ALLOWED_RUN_ID_PATTERN", pattern)
    TaskRuns(TaskInstance()).check_target("handle", thorough=True)

    assert len(supervisor.asked) == asked


@pytest.mark.since(3, 3, "a thorough check")
@pytest.mark.parametrize(
    "answer",
    [
        api_error(400, "value_error", "Timetable class 'my.Timetable' is not registered"),
        api_error(422),
        api_error(500),
        lost("ConnectError"),
    ],
)
def test_a_thorough_check_passes_for_no_other_answer(supervisor: Supervisor, answer: Exception) -> None:
    supervisor.fail(answer)

    with pytest.raises(TargetError):
        TaskRuns(TaskInstance()).check_target("handle", thorough=True)


CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            f"Invalid input for param message: {{'card': '{CARD}'}} is not of type 'string', 'null'",
            "Invalid input for param message: it is not of type 'string', 'null'",
        ),
        (f"Invalid input for param card: '{CARD}' does not match '^a'", "does not match the pattern"),
        (f"Invalid input for param card: '{CARD}' is not one of ['a', 'b']", "not one of the values"),
        (f"Invalid input for param card: '{CARD}' is too long\n\nOn instance:\n '{CARD}'", "too long"),
        (f"Invalid input for param card: ['{CARD}'] should be non-empty", "too short"),
        ("Invalid input for param card: 4111111111111111 is greater than the maximum of 3", "out of range"),
        (f"Invalid input for param card: 'is not of type {CARD}' is too short", "too short"),
        (f"Invalid input for param card: {CARD} is odd", "param card: it is not valid"),
        ("Invalid input for param card: No value passed and Param is required", "no value passed"),
        (f"Out of range float values are not JSON compliant: {CARD}", "Out of range float values"),
        (f"Something about '{CARD}'", "Something about"),
        (f"{CARD}", "no reason that can be shown"),
        ("Timetable class 'a.B' is not registered or", "Timetable class 'a.B' is not registered or"),
    ],
)
def test_a_reason_names_the_param_and_the_rule_and_never_the_value(said: str, shown: str) -> None:
    reason = reason_without_values(said)

    assert shown in reason
    assert "4111" not in reason


def test_queued_and_running_runs_are_unfinished() -> None:
    ti = TaskInstance(unfinished=lambda dag_id: 7)

    assert TaskRuns(ti).unfinished("handle") == 7
    assert ti.counted == [("handle", ("queued", "running"))]


def test_an_answer_that_cannot_be_decoded_is_of_airflow(supervisor: Supervisor) -> None:
    try:
        OKResponse.model_validate({"ok": {}})
    except ValidationError as error:
        supervisor.fail(error)

    with pytest.raises(TargetError, match="cannot be read"):
        RUNS.start("handle", "workflow__1", {})
