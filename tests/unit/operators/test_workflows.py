"""The operators of workflows: guess, templates, enrollments."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from airflow.sdk import DAG, task

from airflow_provider_workflow.client.errors import (
    AuthenticationError,
    RateLimitError,
    ServerError,
    TransportError,
)
from airflow_provider_workflow.dispatch.payloads import unstorable
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.get_provider_info import get_provider_info
from airflow_provider_workflow.operators.base import storable
from airflow_provider_workflow.operators.workflows import (
    WorkflowGuessOperator,
    WorkflowTemplatesOperator,
    WorkflowUnenrollOperator,
)
from tests.unit.loading import AIRFLOW, loaded
from tests.unit.test_parse_weight import HEAVY

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


FIELDS = {"id", "title", "slug", "status", "description_plain", "url", "create_url", "steps"}


def templates(**arguments: Any) -> Any:
    return WorkflowTemplatesOperator(task_id="t", **arguments).execute({})


def test_only_the_fields_that_fit_an_xcom_are_returned(connected: EmulatorServer) -> None:
    found = templates(limit=2)

    assert len(found) == 2
    assert all(set(template) == FIELDS for template in found)
    assert all(set(step) == {"title", "api"} for template in found for step in template["steps"])
    assert found[0]["steps"] == [
        {"title": "Mail", "api": "MailAPI@1.0.0"},
        {"title": "Chat", "api": "ChatAPI@1.0.0"},
    ]


def test_a_hundred_templates_are_less_than_a_hundred_kilobytes(connected: EmulatorServer) -> None:
    found = templates()

    assert len(found) == 100
    assert len(json.dumps(found)) < 100_000


def test_all_pages_are_read(connected: EmulatorServer) -> None:
    found = templates(limit=None)

    assert len(found) == len({template["id"] for template in found}) > 100
    assert connected.count("templates") == 2


@pytest.mark.parametrize("apps", [("shop", "mail"), "shop,mail,"])
def test_apps_are_a_list_or_a_text_with_commas(connected: EmulatorServer, apps: Any) -> None:
    found = templates(apps=apps)

    assert {step["title"] for template in found for step in template["steps"]} == {"Shop", "Mail"}


@pytest.mark.parametrize(("apps", "named"), [("shop, mail", "shop, mail"), (None, "all apps")])
def test_the_number_of_templates_is_logged(
    connected: EmulatorServer, apps: Any, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        templates(apps=apps, limit=2)

    assert f"Found 2 workflow templates for {named}" in caplog.text


@pytest.mark.parametrize("apps", [None, []])
def test_without_apps_there_are_those_of_all(connected: EmulatorServer, apps: Any) -> None:
    assert len(templates(apps=apps, limit=150)) == 150


def test_fields_that_the_service_leaves_out_are_none(connected: EmulatorServer) -> None:
    connected.fault(
        "status", operation="templates", status=200, json=[{"id": 1, "title": "cut \ud83d", "steps": [{}]}]
    )
    (found,) = templates()

    assert found["title"] == "cut \ufffd"
    assert found["slug"] is None
    assert found["steps"] == [{"title": None, "api": None}]


def test_a_service_that_fails_is_raised(connected: EmulatorServer) -> None:
    connected.fault("status", operation="templates", status=503, times=None)

    with pytest.raises(ServerError):
        templates()


@pytest.mark.parametrize(
    ("field", "value"),
    [("limit", 0), ("limit", True), ("apps", [""]), ("apps", 5)],
)
def test_a_wrong_argument_of_templates_is_named_where_the_dag_is_parsed(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        WorkflowTemplatesOperator(task_id="t", **{field: value})


def test_apps_and_limit_are_templated(connected: EmulatorServer) -> None:
    operator = WorkflowTemplatesOperator(
        task_id="t", apps=["{{ params.app }}", "mail"], limit="{{ params.limit }}"
    )
    operator.render_template_fields({"params": {"app": "shop", "limit": 1}})
    (found,) = operator.execute({})

    assert {step["title"] for step in found["steps"]} == {"Shop", "Mail"}


def test_a_limit_that_was_rendered_to_no_number_is_named(connected: EmulatorServer) -> None:
    operator = WorkflowTemplatesOperator(task_id="t", limit="{{ params.limit }}")
    operator.render_template_fields({"params": {"limit": "many"}})

    with pytest.raises(ValueError, match=r"^limit"):
        operator.execute({})


def test_apps_may_be_what_another_task_returns() -> None:
    with DAG("d", schedule=None):

        @task
        def apps() -> list[str]:
            return ["shop"]

        operator = WorkflowTemplatesOperator(task_id="t", apps=apps())

    assert operator.upstream_task_ids == {"apps"}


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


def test_a_wrong_argument_of_an_enrollment_is_named_where_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match=r"^enrollment_id"):
        WorkflowUnenrollOperator(task_id="t", enrollment_id="")


def test_the_enrollment_is_templated(connected: EmulatorServer) -> None:
    operator = WorkflowUnenrollOperator(task_id="t", enrollment_id="{{ params.id }}")
    operator.render_template_fields({"params": {"id": "a b"}})
    operator.execute({})

    assert connected.store.unenrolled == ["a b"]


@pytest.mark.slow
def test_no_module_of_the_provider_loads_anything_heavy_where_a_dag_is_parsed() -> None:
    info = get_provider_info()
    groups = [group for kind in ("operators", "sensors", "triggers") for group in info[kind]]
    wanted = [name for group in groups for name in group["python-modules"]]
    more = loaded(f"import {', '.join(wanted)}, airflow_provider_workflow.links", AIRFLOW)

    assert set(wanted) <= more
    assert more & HEAVY == set()
    assert "airflow_provider_workflow.hooks.workflow" not in more


@pytest.mark.parametrize(
    ("value", "kept"),
    [("Grüße 😀\n", "Grüße 😀\n"), ("cut \ud83d", "cut \ufffd"), ("\ude00\0", "\ufffd\ufffd"), (5, 5)],
)
def test_texts_are_kept_but_for_what_cannot_be_stored(value: Any, kept: Any) -> None:
    assert storable(value) == kept
