"""Templates are listed over all pages, and returned small."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from airflow.sdk import DAG, task

from airflow_provider_workflow.client.errors import ServerError
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.workflows import WorkflowTemplatesOperator

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
def test_a_wrong_argument_is_named_where_the_dag_is_parsed(field: str, value: Any) -> None:
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
