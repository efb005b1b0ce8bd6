"""A DAG that renders its templates to Python objects leaves the strings of our operators alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.definitions.param import ParamsDict

from airflow_provider_workflow.operators.dead_letters import WorkflowDeadLetterReplayOperator
from airflow_provider_workflow.operators.inbox import (
    WorkflowAcknowledgeOperator,
    WorkflowInboxDispatchOperator,
)
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
)
from airflow_provider_workflow.operators.workflows import (
    WorkflowGuessOperator,
    WorkflowTemplatesOperator,
    WorkflowUnenrollOperator,
)
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

STRINGS = ["1_000", "None", "'1'", "[1]"]
"""Strings that Python reads as something else."""


def rendered(make: Callable[[], Any], native: bool = True, **params: Any) -> Any:
    """An operator as it stands when its task begins."""
    with DAG("native", schedule=None, start_date=datetime(2025, 1, 1), render_template_as_native_obj=native):
        operator = make()
    context: Any = {"params": ParamsDict(params), "day": "20260101", "task": operator, "ti": None}
    operator.render_template_fields(context)
    return context["task"]


def sensor(**arguments: Any) -> WorkflowInboxSensor:
    given = {"inbox": "orders", "trigger_dag_id": "handle", **arguments}
    return WorkflowInboxSensor(task_id="wait", **given)


@pytest.mark.parametrize("text", STRINGS)
def test_a_string_that_python_reads_as_something_else_stays_a_string(text: str) -> None:
    assert rendered(lambda: sensor(inbox=text)).inbox == text


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda text: sensor(workflow_conn_id=text), "workflow_conn_id"),
        (lambda text: sensor(trigger_dag_id=text), "trigger_dag_id"),
        (
            lambda text: WorkflowInboxDispatchOperator(task_id="a", inbox=text, trigger_dag_id="handle"),
            "inbox",
        ),
        (
            lambda text: WorkflowEnsureInboxOperator(
                task_id="a", name=text, app_key="shop", action_key="order"
            ),
            "name",
        ),
        (lambda text: WorkflowPauseInboxOperator(task_id="a", inbox=text), "inbox"),
        (lambda text: WorkflowGuessOperator(task_id="a", description=text), "description"),
        (lambda text: WorkflowUnenrollOperator(task_id="a", enrollment_id=text), "enrollment_id"),
        (
            lambda text: WorkflowDeadLetterReplayOperator(task_id="a", trigger_dag_id=text),
            "trigger_dag_id",
        ),
        (lambda text: WorkflowTemplatesOperator(task_id="a", workflow_conn_id=text), "workflow_conn_id"),
    ],
)
def test_no_operator_turns_a_string_into_something_else(
    make: Callable[[str], BaseOperator], field: str
) -> None:
    assert getattr(rendered(lambda: make("1_000")), field) == "1_000"


@pytest.mark.parametrize("text", ["`[1]`", '"payload"'])
def test_an_expression_keeps_its_quotes(text: str) -> None:
    made = rendered(lambda: sensor(match=text, trigger_dag_id={"a": text, "b": "{{ params.b }}"}), b="'x'")

    assert made.match == text
    assert made.trigger_dag_id == {"a": text, "b": "'x'"}


def test_the_strings_of_a_list_stay_strings() -> None:
    lease = {"inbox_id": "i", "lease_id": "l", "messages": [{"id": "1"}]}
    made = rendered(
        lambda: WorkflowAcknowledgeOperator(task_id="a", lease="{{ params.lease }}", message_ids=["1"]),
        lease=lease,
    )

    assert (made.lease, made.message_ids) == (lease, ["1"])
    apps = rendered(lambda: WorkflowTemplatesOperator(task_id="a", apps=["1", "{{ day }}"], limit="3"))
    assert (apps.apps, apps.limit) == (["1", "20260101"], 3)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("template", "text"),
    [("{{ params.n }}", "12"), ("{{ params.q }}", "'1'"), ("a\n", "a")],
)
def test_a_template_yields_the_string_that_it_yields_elsewhere(
    template: str, text: str, native: bool
) -> None:
    assert rendered(lambda: sensor(inbox=template), native, n=12, q="'1'").inbox == text


def test_a_template_may_yield_a_dictionary_of_targets_and_no_match() -> None:
    made = rendered(
        lambda: sensor(trigger_dag_id="{{ params.routes }}", match="{{ params.match }}"),
        routes={"a": "payload"},
        match=None,
    )

    assert (made.trigger_dag_id, made.match) == ({"a": "payload"}, None)


@pytest.mark.parametrize(
    ("arguments", "field", "what"),
    [
        ({"inbox": "{{ params.nothing }}"}, "inbox", "None"),
        ({"match": "{{ params.some }}"}, "match", "a list"),
        ({"trigger_dag_id": {"a": "{{ params.some }}"}}, r"trigger_dag_id\['a'\]", "a list"),
    ],
)
def test_a_template_that_yields_no_string_is_named_with_its_cause_and_the_fix(
    arguments: dict[str, Any], field: str, what: str
) -> None:
    with pytest.raises(
        ValueError,
        match=rf"^{field} was rendered to {what}, not to a string, as render_template_as_native_obj is True\."
        r" Give .* render_template_as_native_obj=False",
    ):
        rendered(lambda: sensor(**arguments), nothing=None, some=[1])


def test_what_the_task_says_counts_for_more_than_what_its_dag_says() -> None:
    assert rendered(lambda: sensor(inbox="1", render_template_as_native_obj=True), native=False).inbox == "1"
    with pytest.raises(ValueError, match=r"^inbox was rendered to None"):
        rendered(
            lambda: sensor(inbox="{{ params.x }}", render_template_as_native_obj=True), native=False, x=None
        )
    assert rendered(
        lambda: sensor(inbox="{{ params.x }}", render_template_as_native_obj=False), x=None
    ).inbox == ("None")


def test_a_mapped_task_keeps_its_strings_as_well() -> None:
    with DAG("native", schedule=None, start_date=datetime(2025, 1, 1), render_template_as_native_obj=True):
        mapped = WorkflowInboxSensor.partial(task_id="wait", trigger_dag_id={"a": "'1'"}).expand(
            inbox=["20260101"]
        )
    unmapped: Any = mapped.unmap({"inbox": "20260101"})
    unmapped._do_render_template_fields(
        parent=unmapped,
        template_fields=mapped.template_fields,
        context={},
        jinja_env=mapped.get_template_env(),
        seen_oids=set(),
    )

    assert (unmapped.inbox, unmapped.trigger_dag_id) == ("20260101", {"a": "'1'"})
