"""JMESPath expressions choose messages and their DAGs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_provider_workflow.dispatch.routing import Routes, UnroutableError


def message(payload: Any) -> dict[str, Any]:
    return {"id": "m", "created_at": "2026-01-01", "payload": payload, "message_attributes": {}}


@pytest.mark.parametrize("value", [0, "x", [0], True])
def test_what_jmespath_takes_as_true_matches(value: Any) -> None:
    assert Routes(None, "payload.v").accepts(message({"v": value}))


@pytest.mark.parametrize("value", [None, False, "", [], {}])
def test_what_jmespath_takes_as_false_does_not_match(value: Any) -> None:
    assert not Routes(None, "payload.v").accepts(message({"v": value}))


def test_an_expression_sees_every_field_of_a_message() -> None:
    expression = "id == 'm' && created_at && payload.v && message_attributes == `{}`"

    assert Routes(None, expression).accepts(message({"v": 1}))


def test_without_expressions_every_message_goes_to_the_one_dag() -> None:
    routes = Routes("handle")

    assert routes.target(message(None)) == "handle"
    assert routes.dag_ids == ["handle"]


def test_expressions_are_tried_in_their_order() -> None:
    routes = Routes({"big": "payload.n > `10`", "any": "payload.n", "never": "payload"})

    assert [routes.target(message({"n": n})) for n in (11, 10)] == ["big", "any"]
    assert routes.dag_ids == ["big", "any", "never"]


def test_what_matches_nothing_is_for_no_dag() -> None:
    assert Routes({"a": "payload.a"}).target(message({})) is None
    assert Routes("a", "payload.a").target(message({})) is None


def test_match_goes_before_the_choice_of_a_dag() -> None:
    routes = Routes({"a": "payload"}, "payload.wanted")

    assert routes.target(message({"wanted": True})) == "a"
    assert routes.target(message({"other": 1})) is None


@pytest.mark.parametrize(
    ("targets", "match", "field"),
    [
        ("a", "payload.(", "match"),
        (None, "nosuch(payload) ||", "match"),
        ({"a": "payload", "b": "&&"}, None, r"trigger_dag_id\['b'\]"),
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
NO_FIELD = "reads 'type', which is no field of a message: those are id, created_at, payload and"


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ('payload.type == "refund"', SINGLE_QUOTES),
        ('payload.type != "refund"', SINGLE_QUOTES),
        ('payload.a && (payload.type == "refund")', SINGLE_QUOTES),
        ('payload.items[?type == "refund"]', SINGLE_QUOTES),
        ('"refund" == payload.type', "reads 'refund', which is no field of a message"),
        ("payload.type == refund", "reads 'refund', which is no field of a message"),
        ("payload.paid == true", "compares with the field true. Write `true`, in backticks"),
        ("payload.items[?paid == null]", "compares with the field null. Write `null`, in backticks"),
        ("type == 'refund'", NO_FIELD),
        ("type", NO_FIELD),
        ("!type", NO_FIELD),
        ("payload.a || type", NO_FIELD),
        ("type.name", NO_FIELD),
        ("type[0]", NO_FIELD),
        ("type[*].a", NO_FIELD),
        ("type[?a]", NO_FIELD),
        ("type | a", NO_FIELD),
        ("contains(type, 'a')", NO_FIELD),
        ("[payload, type]", NO_FIELD),
        ("{a: type}", NO_FIELD),
        ("type[]", NO_FIELD),
        (
            "start_with(payload.a, 'b')",
            r"calls start_with(), which JMESPath does not have",
        ),
        ("payload.a[?nosuch(@)]", r"calls nosuch(), which JMESPath does not have"),
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


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("expression", "payload"),
    [
        ("length(payload)", 5),
        ("payload[::0]", [1, 2]),
        ("ceil(payload)", float("inf")),
        ("to_string(payload)", deep(100_000)),
    ],
)
def test_whatever_an_expression_fails_with_is_of_that_message(expression: str, payload: Any) -> None:
    with pytest.raises(UnroutableError, match=r"^match cannot be evaluated"):
        Routes(None, expression).accepts(message(payload))


@pytest.mark.parametrize("expression", ["sum(payload)", "length(payload.n)"])
def test_an_error_of_an_expression_quotes_no_value(expression: str) -> None:
    with pytest.raises(UnroutableError) as caught:
        Routes(None, expression).accepts(message(["4111 1111", {"n": 4111}, 4111]))
    assert "4111" not in str(caught.value)


def test_an_error_of_an_expression_names_the_types() -> None:
    with pytest.raises(
        UnroutableError, match=r"match cannot be evaluated on it: abs\(\) takes number, and was given"
    ):
        Routes(None, "abs(payload)").accepts(message("secret"))
