"""A workflow is guessed once, returned small, and a text that describes none is final."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from airflow_provider_workflow.client.errors import RateLimitError, TransportError
from airflow_provider_workflow.dispatch.payloads import unstorable
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator

ORDERS = "When an order arrives in the shop, add a row to the spreadsheet"
PROSE = "The weather is lovely"


def guess(description: str = ORDERS, **arguments: Any) -> Any:
    return WorkflowGuessOperator(task_id="t", description=description, **arguments).execute({})


def test_the_guess_is_returned_with_title_steps_and_the_address_of_the_editor(
    connected: EmulatorServer,
) -> None:
    found = guess()

    assert set(found) == {"title", "steps", "prefilled_url", "messages"}
    assert found["title"] == ORDERS
    assert [each["step"]["app"] for each in found["steps"]] == ["Shop", "Spreadsheet"]
    assert all(set(raw) == {"title", "app", "api"} for step in found["steps"] for raw in step["alternatives"])
    assert found["prefilled_url"].startswith(f"{connected.base_url}/editor?")
    assert found["messages"] == []


def test_the_number_of_steps_is_logged_and_not_the_text(
    connected: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        guess()

    assert "Guessed a workflow of 2 steps" in caplog.text
    assert ORDERS not in caplog.text


def test_remarks_of_the_service_are_returned_as_texts(connected: EmulatorServer) -> None:
    assert guess("Send an email")["messages"] == [
        "The prompt names fewer than two apps; the others were assumed."
    ]


def test_what_no_xcom_can_hold_is_left_out(connected: EmulatorServer) -> None:
    step = {"title": None, "app": "Cut \ud83d", "api": "A@1", "__classname__": "x"}
    connected.fault(
        "status",
        operation="guess",
        status=200,
        json={
            "title": "half an emoji \ud83d and a \0",
            "steps": [{"step": step, "alternatives": None}],
            "prefilled_url": "https://editor.example.com/",
            "messages": [{"__classname__": "x", "detail": "as seen"}, {"other": 1}, {"detail": 5}, "text"],
        },
    )
    found = guess()

    assert unstorable(found) is None
    assert "\\u0000" not in json.dumps(found)
    assert found["title"] == "half an emoji \ufffd and a \ufffd"
    assert found["steps"] == [
        {"step": {"title": None, "app": "Cut \ufffd", "api": "A@1"}, "alternatives": []}
    ]
    assert found["messages"] == ["as seen"]


def test_a_text_that_describes_no_workflow_fails_the_task_for_good(connected: EmulatorServer) -> None:
    with pytest.raises(AirflowFailException, match="names neither an app nor an action"):
        guess(PROSE)

    assert connected.count("guess") == 1


def test_a_text_that_describes_no_workflow_skips_the_task_where_asked_and_says_why(
    connected: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AirflowSkipException, match="names neither an app nor an action"):
        guess(PROSE, on_rejected="skip")
    assert "describes no workflow: The prompt does not describe a workflow" in caplog.text
    assert "The task is skipped" in caplog.text


def test_a_rate_limit_is_no_rejection(connected: EmulatorServer) -> None:
    connected.fault("status", operation="guess", status=429, headers={"Retry-After": "3600"}, times=None)

    with pytest.raises(RateLimitError):
        guess(on_rejected="skip")


def test_a_guess_whose_answer_is_lost_is_not_made_again(connected: EmulatorServer) -> None:
    connected.fault("drop", operation="guess", when="after", times=None)

    with pytest.raises(TransportError):
        guess()
    assert connected.count("guess") == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [("description", " "), ("on_rejected", "retry")],
)
def test_a_wrong_argument_is_named_where_the_dag_is_parsed(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        WorkflowGuessOperator(task_id="t", **{"description": ORDERS, field: value})


def test_a_template_that_was_rendered_to_nothing_is_named(connected: EmulatorServer) -> None:
    operator = WorkflowGuessOperator(task_id="t", description="{{ params.text }}")
    operator.render_template_fields({"params": {"text": ""}})

    with pytest.raises(ValueError, match=r"^description"):
        operator.execute({})
    assert connected.requests == []


def test_description_and_connection_are_templated() -> None:
    operator = WorkflowGuessOperator(
        task_id="t", description="{{ params.text }}", workflow_conn_id="{{ params.conn }}"
    )
    operator.render_template_fields({"params": {"text": ORDERS, "conn": "other"}})

    assert (operator.description, operator.hook.workflow_conn_id) == (ORDERS, "other")


def test_the_link_is_on_the_operator() -> None:
    assert [link.name for link in WorkflowGuessOperator.operator_extra_links] == ["Open workflow editor"]


@pytest.mark.parametrize("remarks", [None, "text", {"detail": "x"}])
def test_remarks_that_are_no_list_are_none(connected: EmulatorServer, remarks: Any) -> None:
    answer = {"title": "t", "steps": [], "prefilled_url": "https://e.example.com/", "messages": remarks}
    connected.fault("status", operation="guess", status=200, json=answer)

    assert guess()["messages"] == []
