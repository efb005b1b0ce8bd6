"""Starting a run, checking a DAG: which fault is of one message, and which of everything."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from airflow_provider_workflow.run_faults import RunRefused, ServerFault, TargetError
from airflow_provider_workflow.runs import Start, TaskRuns
from tests.unit.fakes import OldTaskInstance, Supervisor, TaskInstance, api_error, lost, unwrapped

RUNS = TaskRuns(TaskInstance())


def test_a_new_run_is_started_with_its_conf(supervisor: Supervisor) -> None:
    assert RUNS.start("handle", "workflow__1", {"message": 1}) is Start.STARTED
    assert supervisor.runs == {("handle", "workflow__1"): {"message": 1}}


def test_a_run_that_exists_counts_as_existing(supervisor: Supervisor) -> None:
    RUNS.start("handle", "workflow__1", {})

    assert RUNS.start("handle", "workflow__1", {}) is Start.EXISTING


@pytest.mark.parametrize(
    ("payload", "cause"),
    [("\ud800", "surrogate"), (2**70, "64 bits"), (float("nan"), "not finite"), ({"\udc00": 1}, "surrogate")],
)
def test_what_airflow_cannot_encode_is_refused_before_it_is_sent(
    supervisor: Supervisor, payload: Any, cause: str
) -> None:
    with pytest.raises(RunRefused, match=cause):
        RUNS.start("handle", "workflow__1", {"message": payload})
    assert supervisor.asked == []


@pytest.mark.parametrize(
    "error", [UnicodeEncodeError("utf-8", "", 0, 1, ""), OverflowError(), RecursionError()]
)
def test_what_fails_while_it_is_encoded_is_refused(supervisor: Supervisor, error: Exception) -> None:
    supervisor.fail(error)

    with pytest.raises(RunRefused, match=type(error).__name__):
        RUNS.start("handle", "workflow__1", {})


@pytest.mark.parametrize(
    "error",
    [api_error(400, "value_error"), api_error(422), api_error(400), lost("PydanticSerializationError")],
)
def test_a_refusal_of_one_run_is_of_one_message(supervisor: Supervisor, error: Exception) -> None:
    supervisor.fail(error)

    with pytest.raises(RunRefused) as caught:
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
        api_error(404),
        api_error(400, "import_errors"),
        api_error(400, "denied_run_type"),
        api_error(401),
        api_error(403),
        api_error(429),
        lost("ConnectError"),
        lost("ReadTimeout"),
        AirflowRuntimeError(ErrorResponse(error=ErrorType.GENERIC_ERROR, detail=None)),
        BrokenPipeError(),
        EOFError(),
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
        (unwrapped(400, "import_errors"), TargetError),
        (unwrapped(403), TargetError),
        (unwrapped(400, "value_error"), RunRefused),
        (unwrapped(422), RunRefused),
        (unwrapped(500), ServerFault),
    ],
)
def test_in_a_dag_test_the_same_answers_mean_the_same(
    supervisor: Supervisor, error: Exception, meaning: type[Exception]
) -> None:
    supervisor.fail(error)

    with pytest.raises(meaning):
        RUNS.start("handle", "workflow__1", {})


@pytest.mark.since(3, 3, "a check of the target that is certain")
def test_a_check_is_certain_in_a_dag_test_too(supervisor: Supervisor) -> None:
    supervisor.fail(unwrapped(400, "value_error"))

    assert TaskRuns(TaskInstance()).check_target("handle") is True


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


@pytest.mark.since(3, 3, "a check of the target that is certain")
def test_a_check_starts_nothing_and_is_certain_on_airflow_3_3(supervisor: Supervisor) -> None:
    assert TaskRuns(TaskInstance()).check_target("handle") is True
    assert supervisor.runs == {}


@pytest.mark.since(3, 3, "a check of the target that is certain")
def test_a_check_finds_a_missing_dag(supervisor: Supervisor) -> None:
    with pytest.raises(TargetError):
        TaskRuns(TaskInstance()).check_target("missing")


@pytest.mark.parametrize("error", [api_error(500), lost("HTTPStatusError")])
def test_a_check_that_the_server_fails_at_is_not_certain(supervisor: Supervisor, error: Exception) -> None:
    supervisor.fail(error)

    assert TaskRuns(TaskInstance()).check_target("handle") is False


def test_on_airflow_3_2_a_check_asks_for_the_dag_and_is_never_certain(
    supervisor: Supervisor, release: Any
) -> None:
    release(3, 2)
    ti = TaskInstance(supervisor=supervisor)

    assert TaskRuns(ti).check_target("handle") is False
    assert supervisor.asked == []
    with pytest.raises(TargetError):
        TaskRuns(ti).check_target("missing")


@pytest.mark.parametrize("error", [api_error(500), lost("HTTPStatusError")])
def test_on_airflow_3_2_a_check_that_the_server_fails_at_is_not_certain(
    supervisor: Supervisor, release: Any, error: AirflowRuntimeError
) -> None:
    release(3, 2)

    assert TaskRuns(TaskInstance(dag_fault=error)).check_target("handle") is False


def test_on_airflow_3_1_no_call_tells(supervisor: Supervisor, release: Any) -> None:
    release(3, 1)

    assert TaskRuns(OldTaskInstance()).check_target("missing") is False


def test_queued_and_running_runs_are_unfinished() -> None:
    ti = TaskInstance(unfinished=lambda dag_id: 7)

    assert TaskRuns(ti).unfinished("handle") == 7
    assert ti.counted == [("handle", ("queued", "running"))]
