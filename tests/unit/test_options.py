"""Arguments that tasks share: checks, retries, templates."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator, TaskGroup
from airflow.sdk.definitions.param import ParamsDict
from airflow.serialization import serialized_objects

from airflow_provider_workflow.decorators.workflow_inbox import workflow_inbox_task
from airflow_provider_workflow.limits import Limits
from airflow_provider_workflow.operators.dead_letters import WorkflowDeadLetterReplayOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowDeleteInboxOperator,
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator, WorkflowUnenrollOperator
from airflow_provider_workflow.options import check_choice, check_routes, check_string, whole_number
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.unit.workbench import Workbench

TEMPLATE = "{{ params.value }}"
OUTPUT = SimpleNamespace(resolve=lambda context: "not ][")
"""Stands for the output of another task, whose value is known when the task runs."""


@pytest.mark.parametrize(
    ("field", "value", "bounds"),
    [
        ("lease_limit", 0, "1 to 100"),
        ("lease_limit", 101, "1 to 100"),
        ("lease_limit", True, "1 to 100"),
        ("lease_seconds", 59, "60 to 3600"),
        ("lease_seconds", 3601, "60 to 3600"),
        ("lease_seconds", 300.5, "60 to 3600"),
        ("max_messages", 0, "1 to"),
        ("max_unfinished_runs", 0, "1 to"),
    ],
)
def test_a_number_out_of_range_is_named_with_its_range(field: str, value: Any, bounds: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be a whole number from {bounds}"):
        Limits(**{field: value})


def test_a_choice_is_named_with_what_it_may_be() -> None:
    assert check_choice("on_rejected", "log", ("fail", "log")) == "log"
    with pytest.raises(ValueError, match="on_rejected must be one of 'fail', 'log', not 'skip'"):
        check_choice("on_rejected", "skip", ("fail", "log"))


@pytest.mark.parametrize(
    ("targets", "match", "field"),
    [
        ("handle", "payload.(", "match"),
        ({"a": "payload.x == '{{ params.x }}'", "b": "payload.("}, None, r"trigger_dag_id\['b'\]"),
        ({"a": "{{ params.a }}"}, "&&", "match"),
        ("{{ params.dag }}", "&&", "match"),
    ],
)
def test_a_wrong_expression_is_named_where_the_dag_is_parsed(targets: Any, match: Any, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        check_routes(targets, match, None, None)


@pytest.mark.parametrize(
    ("targets", "match"),
    [
        (None, None),
        ("{{ params.dag }}", None),
        ("handle", "payload.n == `{{ params.n }}`"),
        ({"a": "{% if params.x %}payload{% endif %}"}, None),
        ({"{{ params.dag }}": "payload"}, None),
        (object(), None),
        ("handle", OUTPUT),
        ({"handle": OUTPUT}, None),
    ],
)
def test_templates_and_outputs_of_other_tasks_are_left_alone(targets: Any, match: Any) -> None:
    check_routes(targets, match, None, None)


@pytest.mark.parametrize(("value", "number"), [("12", 12), (12, 12), ("x", "x"), ("²", "²"), (None, None)])
def test_a_number_that_became_text_is_a_number_again(value: Any, number: Any) -> None:
    assert whole_number(value) == number


def test_a_text_is_kept_or_comes_later_or_what_is_wrong_with_it_is_named() -> None:
    for value in ("a text", TEMPLATE, OUTPUT):
        assert check_string("name", value, 12) is value
    for wrong in ("", 5):
        with pytest.raises(ValueError, match="name must be a string that is not empty"):
            check_string("name", wrong, 12)
    with pytest.raises(ValueError, match="name must have at most 12 characters, not 15"):
        check_string("name", "a text too long", 12)


SECONDS_10, MINUTES_2 = timedelta(seconds=10), timedelta(minutes=2)
NAMES = ("retries", "retry_delay", "retry_exponential_backoff", "max_retry_delay")
EXPLICIT: dict[str, Any] = {
    "retries": 0,
    "retry_delay": timedelta(minutes=20),
    "retry_exponential_backoff": False,
    "max_retry_delay": timedelta(minutes=5),
}

START_RUNS = {"inbox": "orders", "trigger_dag_id": "handle"}


@contextmanager
def a_dag(**default_args: Any) -> Iterator[DAG]:
    with DAG("d", schedule=None, start_date=datetime(2025, 1, 1), default_args=default_args) as dag:
        yield dag


def scheduled(dag: DAG, task_id: str = "t") -> dict[str, Any]:
    """The retries of a task as the scheduler reads them."""
    serialization = serialized_objects.DagSerialization
    return retries_of(serialization.from_dict(serialization.to_dict(dag)).get_task(task_id))


def retries_of(task: Any) -> dict[str, Any]:
    return {name: getattr(task, name) for name in NAMES}


@pytest.mark.parametrize(
    ("operator", "arguments", "retries", "limit"),
    [
        (WorkflowInboxSensor, START_RUNS, 75, MINUTES_2),
        (WorkflowInboxDispatchOperator, START_RUNS, 5, MINUTES_2),
        (WorkflowDeadLetterReplayOperator, {"conf": {}}, 20, timedelta(hours=6)),
        (WorkflowGuessOperator, {"description": "an order"}, 12, timedelta(minutes=10)),
        (WorkflowPauseInboxOperator, {"inbox": "orders"}, 12, timedelta(minutes=10)),
    ],
)
def test_retries_with_growing_and_limited_pauses_are_the_default_of_a_task_and_of_a_mapped_one(
    operator: Any, arguments: dict[str, Any], retries: int, limit: timedelta
) -> None:
    with a_dag() as dag:
        mapped_operator = operator.partial(task_id="t").expand_kwargs([arguments])
    read = scheduled(dag)

    assert (read["retries"], read["retry_delay"], read["max_retry_delay"]) == (retries, SECONDS_10, limit)
    assert read["retry_exponential_backoff"] in (True, 2)
    for task in (operator(task_id="t", **arguments), mapped_operator.unmap(arguments)):
        assert (task.retries, task.retry_delay, task.max_retry_delay) == (retries, SECONDS_10, limit)
        assert task.retry_exponential_backoff


def test_a_batch_is_retried_as_a_dispatch_is() -> None:
    assert (
        workflow_inbox_task(inbox="orders")(print_all)().operator.retries == dispatch_operator().retries == 5
    )


def dispatch_operator(**options: Any) -> Any:
    return WorkflowInboxDispatchOperator(task_id="t", **START_RUNS, **options)


@pytest.mark.parametrize("level", ["dag", "outer task group", "task group", "task", "argument"])
def test_an_explicit_value_of_a_task_and_of_a_mapped_one_wins(level: str) -> None:
    at = defaultdict(dict, {level: EXPLICIT})
    with (
        a_dag(**at["dag"]) as dag,
        TaskGroup("outer", default_args=at["outer task group"]),
        TaskGroup("inner", default_args=at["task group"]),
    ):
        arguments = {"default_args": at["task"], **at["argument"]}
        operator = dispatch_operator(**arguments)
        partial = WorkflowInboxDispatchOperator.partial(task_id="mapped", **arguments)
        mapped_operator = partial.expand_kwargs([START_RUNS])

    assert retries_of(operator) == retries_of(mapped_operator.unmap(START_RUNS)) == EXPLICIT
    assert scheduled(dag, mapped_operator.task_id) == EXPLICIT


def test_a_longer_first_pause_raises_the_default_limit_but_not_an_explicit_one() -> None:
    day = timedelta(days=1)
    with a_dag(retry_delay=day) as dag:
        WorkflowInboxSensor.partial(task_id="t", trigger_dag_id="handle").expand(inbox=["a", "b"])

    assert scheduled(dag)["max_retry_delay"] == day
    assert dispatch_operator(retry_delay=86400).max_retry_delay == day
    assert dispatch_operator(retry_delay=5).max_retry_delay == MINUTES_2
    assert dispatch_operator(retry_delay=day, max_retry_delay=MINUTES_2).max_retry_delay == MINUTES_2
    assert dispatch_operator(max_retry_delay=None).max_retry_delay is None


@pytest.mark.since(3, 3, "the task state store")
def test_auto_needs_no_retries_to_be_given_but_rejects_none_at_all() -> None:
    assert WorkflowInboxSensor(task_id="t", inbox="orders").retries == 75
    with a_dag(retries=0), pytest.raises(ValueError, match=r"^retries must be 1 or more"):
        WorkflowInboxSensor(task_id="t", inbox="orders")


@pytest.mark.slow
def test_the_defaults_of_an_operator_win_over_those_of_the_whole_airflow() -> None:
    code = (
        "from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor as Sensor\n"
        "from airflow.sdk import BaseOperator, DAG\n"
        "with DAG('d', schedule=None):\n"
        "    mapped = Sensor.partial(task_id='m', trigger_dag_id='t').expand(inbox=['i', 'j'])\n"
        "    made = Sensor(task_id='s', inbox='i', trigger_dag_id='t')\n"
        "    others = BaseOperator(task_id='b')\n"
        "print(made.retries, made.retry_delay, mapped.retries, mapped.retry_delay, others.retries)\n"
    )
    configured = {"AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "3", "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "77"}
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **configured},
        capture_output=True,
        text=True,
        check=True,
    )

    assert process.stdout.splitlines()[-1] == "75 0:00:10 75 0:00:10 3"


ROUTED = {"task_id": "a", "trigger_dag_id": "handle"}
SUBSCRIPTION = {"app_key": "shop", "action_key": "order"}


def rendered(make: Callable[[], Any], value: Any, ti: Any = None) -> tuple[Any, dict[str, Any]]:
    """An operator as it stands when its task begins, and the context of the task."""
    with DAG("native", schedule=None, start_date=datetime(2025, 1, 1), render_template_as_native_obj=True):
        operator = make()
    context: Any = {"params": ParamsDict({"value": value}), "task": operator, "ti": ti, "try_number": 1}
    operator.render_template_fields(context)
    return context["task"], context


def test_a_number_is_the_name_of_an_inbox(bench: Workbench) -> None:
    bench.service.open_inbox("20260101")
    bench.service.put("20260101", {"n": 1}, ids=["a"])
    make = lambda: WorkflowInboxSensor(inbox=TEMPLATE, deferrable=False, **ROUTED)  # noqa: E731
    operator, context = rendered(make, "20260101", bench.ti)

    assert operator.execute(context)["started"]["ids"] == ["a"]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: WorkflowInboxDispatchOperator(inbox=TEMPLATE, **ROUTED), "inbox"),
        (lambda: WorkflowInboxSensor(inbox=TEMPLATE, deferrable=True, **ROUTED), "inbox"),
        (lambda: WorkflowInboxSensor(task_id="a", inbox="orders", trigger_dag_id=TEMPLATE), "trigger_dag_id"),
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

    with pytest.raises(ValueError, match=rf"^{field} was rendered to None\. Give .*=False"):
        operator.execute(context)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: WorkflowInboxDispatchOperator(inbox="orders", match=TEMPLATE, **ROUTED), "match"),
        (lambda: WorkflowDeadLetterReplayOperator(task_id="a", trigger_dag_id=TEMPLATE), "trigger_dag_id"),
    ],
)
def test_what_may_be_missing_is_no_list_and_not_empty(
    bench: Workbench, make: Callable[[], Any], field: str
) -> None:
    for value, text in (([1], "a list"), (1.1, "a float"), ("", "an empty string")):
        operator, context = rendered(make, value, bench.ti)
        with pytest.raises(ValueError, match=rf"^{field} was rendered to {text}\."):
            operator.execute({**context, "dag_run": SimpleNamespace(conf={})})


def test_the_fix_that_the_error_names_keeps_a_name_as_it_is_written(bench: Workbench) -> None:
    bench.service.open_inbox("1.10")
    bench.service.put("1.10", {"n": 1}, ids=["a"])
    make = lambda **fix: WorkflowInboxDispatchOperator(inbox="1.10", **fix, **ROUTED)  # noqa: E731
    operator, context = rendered(make, None, bench.ti)
    with pytest.raises(ValueError, match="or render_template_as_native_obj=False on the task"):
        operator.execute(context)

    operator, context = rendered(lambda: make(render_template_as_native_obj=False), None, bench.ti)
    assert operator.execute(context)["started"]["ids"] == ["a"]


def test_a_dead_letter_dag_that_a_template_yields_is_not_the_target(bench: Workbench) -> None:
    arguments = {"inbox": "orders", "dead_letter_dag_id": TEMPLATE, **ROUTED}
    operator, context = rendered(lambda: WorkflowInboxDispatchOperator(**arguments), "handle", bench.ti)

    with pytest.raises(ValueError, match="dead_letter_dag_id must name another DAG than trigger_dag_id"):
        operator.execute(context)


def test_a_template_may_yield_a_dictionary_of_targets_and_a_match_of_all(bench: Workbench) -> None:
    bench.put("a")
    match = "{{ params.value.get('match', '`true`') }}"
    operator, context = rendered(
        lambda: WorkflowInboxDispatchOperator(
            task_id="a", inbox="orders", trigger_dag_id=TEMPLATE, match=match
        ),
        {"handle": "id"},
        bench.ti,
    )
    assert operator.execute(context)["started"]["ids"] == ["a"]


def print_all(messages: Any) -> None:
    """The function of a task that is never called."""
