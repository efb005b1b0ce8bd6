"""Arguments that are checked where a DAG file is parsed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_workflow.operators.base import check_limits, check_routes
from airflow_provider_workflow.options import check_choice, check_string, known_later, whole_number

GOOD: dict[str, Any] = {
    "lease_limit": 100,
    "lease_seconds": 300,
    "max_messages": None,
    "max_unfinished_runs": None,
}


@pytest.mark.parametrize(
    ("field", "value", "bounds"),
    [
        ("lease_limit", 0, "1 to 100"),
        ("lease_limit", 101, "1 to 100"),
        ("lease_limit", True, "1 to 100"),
        ("lease_limit", "10", "1 to 100"),
        ("lease_seconds", 59, "60 to 3600"),
        ("lease_seconds", 3601, "60 to 3600"),
        ("lease_seconds", 300.5, "60 to 3600"),
        ("max_messages", 0, "1 to"),
        ("max_unfinished_runs", 0, "1 to"),
    ],
)
def test_a_number_out_of_range_is_named_with_its_range(field: str, value: Any, bounds: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be a whole number from {bounds}"):
        check_limits(**{**GOOD, field: value})


@pytest.mark.parametrize("edge", [{"lease_limit": 1}, {"lease_seconds": 60}, {"lease_seconds": 3600}])
def test_the_ends_of_a_range_belong_to_it(edge: dict[str, int]) -> None:
    limits = check_limits(**{**GOOD, **edge})

    assert all(getattr(limits, name) == value for name, value in edge.items())


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
        ("", None, "trigger_dag_id"),
        ({}, None, "trigger_dag_id"),
    ],
)
def test_a_wrong_expression_is_named_where_the_dag_is_parsed(targets: Any, match: Any, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        check_routes(targets, match)


@pytest.mark.parametrize(
    ("targets", "match"),
    [
        (None, None),
        ("{{ params.dag }}", None),
        ("handle", "payload.n == `{{ params.n }}`"),
        ({"a": "{% if params.x %}payload{% endif %}"}, None),
        ({"{{ params.dag }}": "payload"}, None),
    ],
)
def test_templates_are_left_alone(targets: Any, match: str | None) -> None:
    check_routes(targets, match)


def test_a_dag_id_that_comes_from_another_task_is_left_alone() -> None:
    check_routes(object(), None)


class Output:
    """Stands for the output of another task, whose value is known when the task runs."""

    def resolve(self) -> str:
        return "not ]["


def test_the_output_of_another_task_is_not_compiled_at_parse() -> None:
    check_routes("target", Output())  # type: ignore[arg-type]
    check_routes({"target": Output()}, None)  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("value", "later"),
    [
        ("{{ params.x }}", True),
        ("a {% if x %}b{% endif %}", True),
        (SimpleNamespace(resolve=lambda context: 1), True),
        ("plain", False),
        ({"a": 1}, False),
        (None, False),
    ],
)
def test_templates_and_outputs_are_known_later(value: Any, later: bool) -> None:
    assert known_later(value) is later


@pytest.mark.parametrize(("value", "number"), [("12", 12), (12, 12), ("x", "x"), ("²", "²"), (None, None)])
def test_a_number_that_became_text_is_a_number_again(value: Any, number: Any) -> None:
    assert whole_number(value) == number


@pytest.mark.parametrize("value", ["a text", "{{ params.x }}", SimpleNamespace(resolve=lambda context: 1)])
def test_a_text_that_is_there_or_comes_later_is_kept(value: Any) -> None:
    assert check_string("name", value, 12) is value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", "name must be a string that is not empty"),
        (5, "name must be a string that is not empty"),
        ("a text too long", "name must have at most 12 characters, not 15"),
    ],
)
def test_a_text_that_is_wrong_is_named(value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check_string("name", value, 12)
