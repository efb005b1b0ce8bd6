"""Unenrolling may be repeated; an enrollment that is gone is a success unless told otherwise."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_workflow.client.errors import AuthenticationError
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.workflows import WorkflowUnenrollOperator


def unenroll(**arguments: Any) -> Any:
    return WorkflowUnenrollOperator(task_id="t", **{"enrollment_id": "e-1", **arguments}).execute({})


def test_an_enrollment_is_ended_with_a_token_of_the_scope_for_it(connected: EmulatorServer) -> None:
    assert unenroll() == {"enrollment_id": "e-1", "unenrolled": True}
    assert connected.store.unenrolled == ["e-1"]
    (token,) = (each for each in connected.requests if each.operation == "token")
    assert b"promotions:write" in token.body


def test_an_enrollment_that_is_ended_is_logged(
    connected: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        unenroll()

    assert "Enrollment e-1 was ended" in caplog.text


def test_an_enrollment_that_is_gone_is_a_success_and_said(
    connected: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    connected.fault("status", operation="unenroll", status=404)

    assert unenroll() == {"enrollment_id": "e-1", "unenrolled": False}
    assert "Enrollment e-1 does not exist; nothing to do" in caplog.text


def test_an_answer_that_is_lost_is_asked_for_again(connected: EmulatorServer) -> None:
    connected.fault("drop", operation="unenroll", when="after")

    assert unenroll()["unenrolled"] is True
    assert connected.count("unenroll") == 2


def test_a_refusal_is_raised(connected: EmulatorServer) -> None:
    connected.fault("status", operation="unenroll", status=403, times=None)

    with pytest.raises(AuthenticationError):
        unenroll()


def test_a_wrong_argument_is_named_where_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match=r"^enrollment_id"):
        WorkflowUnenrollOperator(task_id="t", enrollment_id="")


def test_the_enrollment_is_templated(connected: EmulatorServer) -> None:
    operator = WorkflowUnenrollOperator(task_id="t", enrollment_id="{{ params.id }}")
    operator.render_template_fields({"params": {"id": "a b"}})
    operator.execute({})

    assert connected.store.unenrolled == ["a b"]
