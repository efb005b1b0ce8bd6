"""Names of our operators in a DAG that renders its templates to Python objects."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.definitions.param import ParamsDict

from airflow_provider_workflow.decorators.workflow_inbox import workflow_inbox_task
from airflow_provider_workflow.operators.dead_letters import WorkflowDeadLetterReplayOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowDeleteInboxOperator,
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator, WorkflowUnenrollOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.unit.workbench import Workbench

DAY = "20260101"
"""A name that Python reads as a number."""
TEMPLATE = "{{ params.value }}"
ROUTED = {"task_id": "a", "trigger_dag_id": "handle"}
WAITS = {**ROUTED, "mode": "reschedule"}
SUBSCRIPTION = {"app_key": "shop", "action_key": "order"}


def rendered(make: Callable[[], Any], value: Any, ti: Any = None) -> tuple[Any, dict[str, Any]]:
    """An operator as it stands when its task begins, and the context of the task."""
    with DAG("native", schedule=None, start_date=datetime(2025, 1, 1), render_template_as_native_obj=True):
        operator = make()
    context: Any = {"params": ParamsDict({"value": value}), "task": operator, "ti": ti, "try_number": 1}
    operator.render_template_fields(context)
    return context["task"], context


@pytest.mark.parametrize("name", [DAY, TEMPLATE], ids=["written", "rendered"])
@pytest.mark.parametrize(
    "make",
    [
        lambda name: WorkflowInboxDispatchOperator(inbox=name, **ROUTED),
        lambda name: WorkflowInboxSensor(inbox=name, deferrable=False, **WAITS),
    ],
    ids=["operator", "sensor"],
)
def test_a_number_is_the_name_of_an_inbox(bench: Workbench, make: Callable[[str], Any], name: str) -> None:
    bench.service.open_inbox(DAY)
    bench.service.put(DAY, {"n": 1}, ids=["a"])
    operator, context = rendered(lambda: make(name), DAY, bench.ti)

    assert operator.execute(context)["started"]["ids"] == ["a"]


def test_an_inbox_whose_name_is_a_number_is_managed(bench: Workbench) -> None:
    for make in (
        lambda: WorkflowEnsureInboxOperator(task_id="a", name=DAY, wait_until_active=False, **SUBSCRIPTION),
        lambda: WorkflowPauseInboxOperator(task_id="a", inbox=DAY),
        lambda: WorkflowResumeInboxOperator(task_id="a", inbox=DAY),
        lambda: WorkflowDeleteInboxOperator(task_id="a", inbox=DAY),
    ):
        operator, context = rendered(make, None)
        operator.execute(context)

    changes = ("ensure_inbox", "pause_inbox", "resume_inbox", "delete_inbox")
    assert [bench.service.count(change) for change in changes] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: WorkflowInboxDispatchOperator(inbox=TEMPLATE, **ROUTED), "inbox"),
        (lambda: WorkflowInboxSensor(inbox=TEMPLATE, deferrable=True, **ROUTED), "inbox"),
        (
            lambda: WorkflowInboxSensor(inbox="orders", workflow_conn_id=TEMPLATE, **ROUTED),
            "workflow_conn_id",
        ),
        (lambda: WorkflowEnsureInboxOperator(task_id="a", name=TEMPLATE, **SUBSCRIPTION), "name"),
        (lambda: WorkflowPauseInboxOperator(task_id="a", inbox=TEMPLATE), "inbox"),
        (
            lambda: WorkflowPauseInboxOperator(task_id="a", inbox="orders", workflow_conn_id=TEMPLATE),
            "workflow_conn_id",
        ),
        (lambda: WorkflowResumeInboxOperator(task_id="a", inbox=TEMPLATE), "inbox"),
        (lambda: WorkflowDeleteInboxOperator(task_id="a", inbox=TEMPLATE), "inbox"),
        (lambda: WorkflowGuessOperator(task_id="a", description=TEMPLATE), "description"),
        (lambda: WorkflowUnenrollOperator(task_id="a", enrollment_id=TEMPLATE), "enrollment_id"),
        (lambda: workflow_inbox_task(inbox=TEMPLATE)(print_all)().operator, "inbox"),
    ],
)
def test_a_template_that_yields_no_name_is_an_error_that_names_the_argument(
    bench: Workbench, make: Callable[[], BaseOperator], field: str
) -> None:
    operator, context = rendered(make, None, bench.ti)

    with pytest.raises(ValueError, match=rf"^{field} was rendered to None, not to a string\. Give .*=False"):
        operator.execute(context)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: WorkflowInboxDispatchOperator(inbox="orders", match=TEMPLATE, **ROUTED), "match"),
        (lambda: WorkflowDeadLetterReplayOperator(task_id="a", trigger_dag_id=TEMPLATE), "trigger_dag_id"),
    ],
)
def test_what_may_be_missing_is_no_list(bench: Workbench, make: Callable[[], Any], field: str) -> None:
    operator, context = rendered(make, [1], bench.ti)

    with pytest.raises(ValueError, match=rf"^{field} was rendered to a list"):
        operator.execute({**context, "dag_run": None} if field == "match" else {**context, "dag_run": Run()})


class Run:
    """A run of a dead-letter DAG."""

    conf: dict[str, Any] = {}  # noqa: RUF012 nothing changes it


def test_a_template_may_yield_a_dictionary_of_targets_and_no_match(bench: Workbench) -> None:
    bench.put("a")
    operator, context = rendered(
        lambda: WorkflowInboxDispatchOperator(
            task_id="a", inbox="orders", trigger_dag_id=TEMPLATE, match="{{ params.value.get('match') }}"
        ),
        {"handle": "id"},
        bench.ti,
    )

    assert operator.execute(context)["started"]["ids"] == ["a"]


def print_all(messages: Any) -> None:
    """The function of a task that is never called."""
