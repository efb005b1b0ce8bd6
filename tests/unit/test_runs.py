"""Starting a run, checking a DAG: which fault is of one message, and which of everything."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse, OKResponse
from pydantic import ValidationError

from airflow_provider_workflow.dispatch.run_errors import (
    MessageFault,
    RunRejected,
    ServerFault,
    TargetError,
    param_of,
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
    [("\ud800", "UnicodeEncodeError"), (2**70, "OverflowError")],
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


def test_a_run_with_the_id_of_a_message_that_names_another_one_rejects_it(supervisor: Supervisor) -> None:
    ti = TaskInstance(supervisor=supervisor)
    names = {"connection_id": "c", "inbox_id": "i"}
    supervisor.runs["handle", "workflow__1"] = {**names, "message": {"id": "other"}}

    with pytest.raises(MessageFault, match="a user or another message started it"):
        TaskRuns(ti).start("handle", "workflow__1", {**names, "message": {"id": "1"}})
    assert not TaskRuns(ti).exists("handle", "workflow__1", {**names, "message_id": "1"})
    assert TaskRuns(ti).exists("handle", "workflow__1", {**names, "message_id": "other"})


@pytest.mark.since(3, 3, "a type of its own for runs that tasks start,")
def test_a_run_that_a_user_started_counts_only_with_the_whole_message(supervisor: Supervisor) -> None:
    runs = TaskRuns(TaskInstance(supervisor=supervisor))
    conf = {"connection_id": "c", "inbox_id": "i", "message": {"id": "1", "payload": {"n": 1}}}
    supervisor.runs["handle", "workflow__1"] = conf
    supervisor.users["handle", "workflow__1"] = "somebody"

    assert runs.start("handle", "workflow__1", conf) is Start.EXISTING
    with pytest.raises(MessageFault):
        runs.start("handle", "workflow__1", {**conf, "message": {"id": "1", "payload": {"n": 2}}})
    assert not runs.exists("handle", "workflow__1", {**conf, "message": {"id": "1"}})


def test_a_run_of_a_listener_that_a_user_started_is_found_when_its_message_is_redelivered(
    supervisor: Supervisor,
) -> None:
    """Airflow gives it the name of that user."""
    runs, key = TaskRuns(TaskInstance(supervisor=supervisor)), ("handle", "workflow__1")
    names = {"connection_id": "c", "inbox_id": "i"}
    supervisor.runs[key] = {**names, "message": {"id": "1", "message_attributes": {"lease_count": 1}}}
    supervisor.users[key] = "somebody"
    supervisor.by_tasks.add(key)
    redelivered = {"id": "1", "message_attributes": {"lease_count": 2}}

    assert runs.start(*key, {**names, "message": redelivered}) is Start.EXISTING
    assert runs.exists(*key, {**names, "message_id": "1"})


CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"Invalid input for param card: '{CARD}' is too long\n\nOn instance:\n '{CARD}'", ": param card"),
        ("Invalid input for param card: No value passed and Param is required", ": param card"),
        (f"Something about '{CARD}'", ""),
        (f"{CARD}", ""),
        (None, ""),
    ],
)
def test_a_reason_names_the_param_and_nothing_else_of_the_sentence(said: str | None, shown: str) -> None:
    assert param_of(said) == shown


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
