"""JMESPath expressions choose messages and their DAGs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_provider_workflow.client import any_json
from airflow_provider_workflow.dispatch.routing import Routes, UnroutableError


def message(payload: Any) -> dict[str, Any]:
    return {"id": "m", "created_at": "2026-01-01", "payload": payload, "message_attributes": {}}


@pytest.mark.parametrize(
    ("value", "is_true"),
    [
        *((value, True) for value in (0, "x", [0], True)),
        *((value, False) for value in (None, False, "", [], {})),
    ],
)
def test_a_value_is_true_or_false_as_in_jmespath(value: Any, is_true: bool) -> None:
    assert Routes(None, "payload.v").accepts(message({"v": value})) is is_true


def test_an_expression_sees_every_field_of_a_message() -> None:
    expression = "id == 'm' && created_at && payload.v && message_attributes == `{}`"

    assert Routes(None, expression).accepts(message({"v": 1}))


@pytest.mark.parametrize(
    ("targets", "match", "payload", "dag_id"),
    [
        ("a", None, None, "a"),
        ("a", "payload.wanted", {}, None),
        ({"a": "payload.a"}, None, {}, None),
        ({"a": "payload"}, "payload.wanted", {"wanted": True}, "a"),
        ({"a": "payload"}, "payload.wanted", {"other": 1}, None),
    ],
)
def test_a_message_has_the_dag_that_match_and_expressions_choose(
    targets: Any, match: str | None, payload: Any, dag_id: str | None
) -> None:
    assert Routes(targets, match).target(message(payload)) == dag_id


def test_expressions_are_tried_in_their_order() -> None:
    routes = Routes({"big": "payload.n > `10`", "any": "payload.n", "never": "payload"})

    assert [routes.target(message({"n": n})) for n in (11, 10)] == ["big", "any"]
    assert routes.dag_ids == ["big", "any", "never"]


@pytest.mark.parametrize(
    ("targets", "match", "field"),
    [
        ("a", "payload.(", "match"),
        (None, "nosuch(payload) ||", "match"),
        ({"a": "payload", "b": "&&"}, None, r"trigger_dag_id\['b'\]"),
        ("a", "", "match"),
        ({"a": ""}, None, r"trigger_dag_id\['a'\]"),
        ({"a": 7}, None, r"trigger_dag_id\['a'\]"),
        ("", None, "trigger_dag_id"),
        ({}, None, "trigger_dag_id"),
        ({"": "payload"}, None, "trigger_dag_id"),
    ],
)
def test_a_wrong_argument_is_named(targets: Any, match: str | None, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        Routes(targets, match)


SINGLE_QUOTES = (
    "compares with the field \"refund\". A text stands in single quotes, 'refund'; a field at the left"
)
READING_NO_FIELD = (
    *("type == 'refund'", "type", "payload.a || type", "type.name", "type[0]", "type[*].a"),
    *("type[?a]", "type | a", "contains(type, 'a')", "[payload, type]", "{a: type}", "type[]"),
)
NO_FIELD = "reads 'type', which is no field of a message: those are id, created_at, payload and"


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ('payload.type == "refund"', SINGLE_QUOTES),
        ('payload.items[?type == "refund"]', SINGLE_QUOTES),
        ('"refund" == payload.type', "reads 'refund', which is no field of a message"),
        ("payload.type == refund", "reads 'refund', which is no field of a message"),
        ("payload.paid != true", "compares with the field true. Write `true`, in backticks"),
        ("payload.items[?paid == null]", "compares with the field null. Write `null`, in backticks"),
        *((reading, NO_FIELD) for reading in READING_NO_FIELD),
        ("payload.a[?nosuch(@)]", "calls nosuch(), which JMESPath does not have"),
        *((outside, "has an & outside of the arguments") for outside in ("&payload.a", "payload.[a, &b]")),
    ],
)
def test_an_expression_that_never_matches_is_an_error_with_the_fix(expression: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"^match {re.escape(hint)}"):
        Routes(None, expression)


@pytest.mark.parametrize(
    "expression",
    [
        "payload.amount > `1000`",
        "payload.type == 'refund'",
        "payload.\"first-name\" == 'Ada'",
        'payload."on hold" && payload.items[0]',
        'payload.items[?price > cost] | [?"first-name" == name]',
        'payload.items[?name == @."first-name"]',
        "payload.a == payload.b && message_attributes.lease_count < `3`",
        "payload.true == `true`",
        "payload.and.or.not",
        "sort_by(payload.items, &price)[0].price",
        "map(&type, payload.items)",
        "payload.{kind: type, all: items[*].type}.kind",
        "payload.*.type | [0]",
        "created_at >= '2026-01-01' && id",
        "@.payload",
        "*",
    ],
)
def test_an_expression_that_may_match_is_accepted(expression: str) -> None:
    Routes(None, expression)


@pytest.mark.parametrize(
    ("expression", "payload"),
    [
        ("payload >= `1000`", "1000"),
        ("payload[::0]", [1, 2]),
        ("ceil(payload)", float("inf")),
        ("to_string(payload)", any_json.decode("[" * 100_000 + "]" * 100_000)),
    ],
)
def test_whatever_an_expression_fails_with_is_of_that_message(expression: str, payload: Any) -> None:
    with pytest.raises(UnroutableError, match=r"^match cannot be evaluated on it: \w+(\(\) takes .*)?$"):
        Routes(None, expression).accepts(message(payload))


@pytest.mark.parametrize(
    ("expression", "types"),
    [("sum(payload)", r"sum\(\) takes "), ("abs(payload)", r"abs\(\) takes number, and was given")],
)
def test_an_error_of_an_expression_names_the_types_and_quotes_no_value(expression: str, types: str) -> None:
    with pytest.raises(UnroutableError, match=f"match cannot be evaluated on it: {types}") as caught:
        Routes(None, expression).accepts(message(["4111 1111", {"n": 4111}, 4111]))
    assert "4111" not in str(caught.value)
