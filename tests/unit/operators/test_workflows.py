"""The operators of workflows: guess, templates, enrollments."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException, AirflowSkipException
from airflow.providers.standard.operators.python import PythonOperator

from airflow_provider_workflow.dispatch.payloads import why_unstorable
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.operators.workflows import (
    TEMPLATE_FIELDS,
    WorkflowGuessOperator,
    WorkflowTemplatesOperator,
    WorkflowUnenrollOperator,
)

ORDERS = "When an order arrives in the shop, add a row to the spreadsheet"
PROSE = "The weather is lovely"


def guess(description: str = ORDERS, **arguments: Any) -> Any:
    return WorkflowGuessOperator(task_id="t", description=description, **arguments).execute({})


def test_the_number_of_steps_is_logged_and_not_the_text(
    connected_emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        guess()

    assert "Guessed a workflow of 2 steps" in caplog.text
    assert ORDERS not in caplog.text


def test_steps_without_a_title_or_alternatives_are_returned_as_they_are(
    connected_emulator: EmulatorServer,
) -> None:
    suggestion = guess("When no-title happens, add no-alternatives")

    assert [step["step"]["title"] for step in suggestion["steps"]] == [None, "Create Item"]
    assert [len(step["alternatives"]) for step in suggestion["steps"]] == [2, 0]
    assert WorkflowHook().guess("When no-title happens, add no-alternatives")["steps"] == suggestion["steps"]


def test_the_guess_is_returned_with_its_title_steps_and_the_link_to_the_editor(
    connected_emulator: EmulatorServer,
) -> None:
    suggestion = guess()

    assert set(suggestion) == {"title", "steps", "prefilled_url", "messages"}
    assert (suggestion["title"], suggestion["messages"]) == (ORDERS, [])
    assert [step["step"]["app"] for step in suggestion["steps"]] == ["Shop", "Spreadsheet"]
    assert {tuple(sorted(other)) for step in suggestion["steps"] for other in step["alternatives"]} == {
        ("api", "app", "title")
    }
    assert suggestion["prefilled_url"].startswith(f"{connected_emulator.base_url}/editor?")


def test_remarks_of_the_service_are_returned_as_texts(connected_emulator: EmulatorServer) -> None:
    assert guess("Send an email")["messages"] == [
        "The prompt names fewer than two apps; the others were assumed."
    ]


def test_what_no_xcom_can_hold_is_left_out(connected_emulator: EmulatorServer) -> None:
    step = {"title": None, "app": "Cut \ud83d", "api": "A@1", "__classname__": "x"}
    connected_emulator.fault(
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
    suggestion = guess()

    assert why_unstorable(suggestion, "value") is None
    assert "\\u0000" not in json.dumps(suggestion)
    assert suggestion["title"] == "half an emoji \ufffd and a \ufffd"
    assert suggestion["steps"] == [
        {"step": {"title": None, "app": "Cut \ufffd", "api": "A@1"}, "alternatives": []}
    ]
    assert suggestion["messages"] == ["as seen"]


def test_a_text_that_describes_no_workflow_fails_the_task_for_good(
    connected_emulator: EmulatorServer,
) -> None:
    with pytest.raises(AirflowFailException, match="it names no app"):
        guess(PROSE)

    assert connected_emulator.count("guess") == 1


def test_a_text_that_describes_no_workflow_skips_the_task_where_asked_and_says_why(
    connected_emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AirflowSkipException, match="it names no app"):
        guess(PROSE, on_rejected="skip")
    assert "describes no workflow: The prompt does not describe a workflow" in caplog.text
    assert "The task is skipped" in caplog.text


def test_the_link_is_on_the_operator() -> None:
    assert [link.name for link in WorkflowGuessOperator.operator_extra_links] == ["Open workflow editor"]


def test_remarks_and_steps_that_are_no_list_are_none(connected_emulator: EmulatorServer) -> None:
    answer = {"title": "t", "steps": [], "prefilled_url": "https://e.example.com/", "messages": None}
    connected_emulator.fault("status", operation="guess", status=200, json=answer)
    connected_emulator.fault("status", operation="templates", status=200, json=[{"id": 1, "steps": 5}])

    assert (guess()["messages"], templates()[0]["steps"]) == ([], [])


def templates(**arguments: Any) -> Any:
    return WorkflowTemplatesOperator(task_id="t", **arguments).execute({})


@pytest.mark.parametrize("apps", [("shop", "mail"), "shop,mail,"])
def test_apps_are_a_list_or_a_text_with_commas(connected_emulator: EmulatorServer, apps: Any) -> None:
    results = templates(apps=apps)

    assert {step["title"] for template in results for step in template["steps"]} == {"Shop", "Mail"}


def test_the_hook_returns_every_field_of_a_template_and_the_operator_those_that_fit_an_xcom(
    connected_emulator: EmulatorServer,
) -> None:
    (whole_template,), (short,) = WorkflowHook().list_templates(limit=1), templates(limit=1)

    assert {"description", "hex_color", "image", "images"} <= set(whole_template["steps"][0])
    assert short == {
        **{name: whole_template[name] for name in TEMPLATE_FIELDS},
        "steps": [{name: step[name] for name in ("title", "api")} for step in whole_template["steps"]],
    }


def test_of_templates_the_fields_that_fit_an_xcom_are_returned_and_a_missing_one_is_none(
    connected_emulator: EmulatorServer,
) -> None:
    names = {"id", "title", "slug", "status", "description_plain", "url", "create_url", "steps"}
    results = templates(limit=2)
    assert [set(template) for template in results] == [names] * 2
    assert results[0]["steps"] == [
        {"title": "Mail", "api": "MailAPI@1.0.0"},
        {"title": "Chat", "api": "ChatAPI@1.0.0"},
    ]

    one = {"id": 1, "title": "cut \ud83d", "steps": [{}]}
    connected_emulator.fault("status", operation="templates", status=200, json=[one])
    (template,) = templates()
    assert template == {
        **dict.fromkeys(names),
        "id": 1,
        "title": "cut \ufffd",
        "steps": [{"title": None, "api": None}],
    }


def test_without_a_limit_all_pages_of_templates_are_read(connected_emulator: EmulatorServer) -> None:
    results = templates(limit=None)
    assert len(results) == len({template["id"] for template in results}) > 100
    assert connected_emulator.count("templates") == 2


def test_apps_and_limit_are_templated_and_a_limit_that_is_no_number_is_named(
    connected_emulator: EmulatorServer,
) -> None:
    def rendered(limit: Any) -> Any:
        operator = WorkflowTemplatesOperator(
            task_id="t", apps=["{{ params.app }}", "mail"], limit="{{ params.limit }}"
        )
        operator.render_template_fields({"params": {"app": "shop", "limit": limit}})
        return operator.execute({})

    (template,) = rendered(1)
    assert {step["title"] for step in template["steps"]} == {"Shop", "Mail"}
    with pytest.raises(ValueError, match=r"^limit"):
        rendered("many")


def test_apps_may_be_what_another_task_returns() -> None:
    with DAG("d", schedule=None):
        operator = WorkflowTemplatesOperator(
            task_id="t", apps=PythonOperator(task_id="apps", python_callable=list).output
        )
    assert operator.upstream_task_ids == {"apps"}


@pytest.mark.parametrize(("apps", "text"), [("shop, mail", "shop, mail"), (None, "all apps")])
def test_the_number_of_templates_is_logged(
    connected_emulator: EmulatorServer, apps: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        templates(apps=apps, limit=2)

    assert f"Found 2 workflow templates for {text}" in caplog.text


@pytest.mark.parametrize(
    ("field", "value"),
    [("limit", 0), ("limit", True), ("apps", [""]), ("apps", 5)],
)
def test_a_wrong_argument_of_templates_is_named_where_the_dag_is_parsed(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        WorkflowTemplatesOperator(task_id="t", **{field: value})


def unenroll(**arguments: Any) -> Any:
    return WorkflowUnenrollOperator(task_id="t", **{"enrollment_id": "e-1", **arguments}).execute({})


def test_an_enrollment_is_ended_with_a_token_for_it_and_that_is_logged(
    connected_emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert unenroll() == {"enrollment_id": "e-1", "unenrolled": True}

    assert "Enrollment e-1 was ended" in caplog.text
    (token,) = (request for request in connected_emulator.requests if request.operation == "token")
    assert b"promotions:write" in token.body


def test_an_enrollment_that_is_gone_is_a_success_and_said(
    connected_emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    connected_emulator.fault("status", operation="unenroll", status=404)

    assert unenroll() == {"enrollment_id": "e-1", "unenrolled": False}
    assert "Enrollment e-1 does not exist; nothing to do" in caplog.text


def test_the_enrollment_is_templated(connected_emulator: EmulatorServer) -> None:
    operator = WorkflowUnenrollOperator(task_id="t", enrollment_id="{{ params.id }}")
    operator.render_template_fields({"params": {"id": "a b"}})

    assert operator.execute({}) == {"enrollment_id": "a b", "unenrolled": True}
    assert connected_emulator.requests[-1].path == "/v2/promotions/a b"
