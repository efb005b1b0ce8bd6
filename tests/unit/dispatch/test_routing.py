"""JMESPath expressions choose messages and their DAGs."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

import pytest

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
        ({"a": "payload", "b": "`true`", "c": "id"}, None, r"trigger_dag_id\['c'\] is never reached.*'b'"),
        ({"a": "'else'", "b": "payload"}, None, r"trigger_dag_id\['b'\] is never reached.*'a'"),
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
        (
            "payload.total > '1000'",
            "compares with the text '1000' by >. Write the number, `1000`, in backticks",
        ),
        ("'-1.5' <= payload.total", "compares with the text '-1.5' by <=. Write the number, `-1.5`, in"),
        ('payload.items[?total >= `"7"`]', "compares with the text '7' by >=. Write the number, `7`, in"),
        ("payload.total < `null`", "compares with null by <, which is never true: give a number"),
        ("`true` < payload.paid", "compares with true by <, which is never true"),
        ("payload.a || payload.items > `[]`", "compares with [] by >, which is never true"),
        *((outside, "has an & outside of the arguments") for outside in ("&payload.a", "payload.[a, &b]")),
        ("payload.paid == True", "compares with the field True. Write `true`, in backticks"),
        ("payload.paid != None", "compares with the field None. Write `null`, in backticks"),
        ("!payload.paid", "reads a field of !payload, which has none. Write !(...) around the whole"),
        ("payload.a && !payload.items[0]", "reads a field of !payload, which has none"),
        (
            "payload.a == 'x' | payload.b == 'y'",
            "passes a comparison on by |, and it has no fields. Write ||",
        ),
        ("contains(payload.tags)", "calls contains() with 1 argument, and it takes 2"),
        ("payload.items[?starts_with(@, 'a', 'b')]", "calls starts_with() with 3 arguments, and it takes 2"),
        ("not_null()", "calls not_null() with 0 arguments, and it takes 1 or more"),
        ("starts_with(payload.code, `12`)", "calls starts_with() with 12, and it takes string there"),
        ("join(payload.tags, ',')", 'calls join() with ",", and it takes array-string there'),
    ],
)
def test_an_expression_that_never_matches_is_an_error_with_the_fix(expression: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"^match {re.escape(hint)}"):
        Routes(None, expression)


@pytest.mark.parametrize("number", ["1000", "-5", "1000.5"])
@pytest.mark.parametrize("expression", ["payload.total > {}", "{} <= payload.total", "payload.a[?b == {}]"])
def test_a_number_without_backticks_is_an_error_with_the_fix(expression: str, number: str) -> None:
    text = rf"^match is no valid JMESPath expression: [^`]*\nWrite the number in backticks, `{number}`;"
    with pytest.raises(ValueError, match=text):
        Routes(None, expression.format(number))


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("payload.a = 'x'", "Write == for ="),
        ("payload.a === 'x'", "Write == for ="),
        ("payload.a and payload.b", "Write && for and"),
        ("payload.a & payload.b", "Write && for &"),
        ("(payload.a OR payload.b)", "Write || for or"),
        ("not payload.a", "Write !(...) for not"),
        ("payload.a in payload.b", "Write contains(list, value) for in"),
        ("payload.a is `null`", "Write == for is"),
        ("payload['a'] == 'x'", "Write a field after a dot, as payload.a"),
        ('payload["a"].b', "Write a field after a dot, as payload.a"),
        ("payload.order-id", 'Write a name with other signs in double quotes, as payload."order-id"'),
    ],
)
def test_what_other_languages_write_is_an_error_with_the_fix(expression: str, fix: str) -> None:
    text = rf"^match is no valid JMESPath expression: (.*\n)+{re.escape(fix)}$"
    with pytest.raises(ValueError, match=text):
        Routes(None, expression)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"targets": {"a": "payload.total > '1000'"}}, "trigger_dag_id['a']"),
        ({"targets": "a", "once_per": "payload.items[?total > '1000']"}, "once_per"),
    ],
)
def test_so_it_is_in_every_expression(arguments: Any, field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(field)} compares with the text '1000' by >"):
        Routes(**arguments)


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
        "'2027' > created_at && id > '5'",
        "payload.day < '2026-01-01' && payload.name >= 'M'",
        "payload.total == '1000' && payload.count > to_number('7')",
        "@.payload",
        "*",
        "!(payload.paid) && !contains(payload.tags, `1`) && !payload",
        "payload.a == 'x' | to_string(@)",
        "merge(payload.a, payload.b, `{}`) | not_null(a, b)",
        "join(',', payload.tags) == 'a,b' || payload.and",
    ],
)
def test_an_expression_that_may_match_is_accepted(expression: str) -> None:
    Routes(None, expression)


@pytest.mark.parametrize(
    ("expression", "payload", "reason"),
    [
        (
            "payload >= `1000`",
            "4111",
            ">= compares two numbers or two strings, and was given string and number;",
        ),
        ("payload.a[?b < @.c]", {"a": [{"b": 4111, "c": "4111"}]}, "< compares .* given number and string;"),
        ("payload[::0]", [4111, 2], "ValueError$"),
        ("ceil(payload)", float("inf"), "OverflowError$"),
        ("to_string(payload)", reduce(lambda value, _: [value], range(100_000), 1), "RecursionError$"),
        ("sum(payload)", ["4111 1111", {"n": 4111}, 4111], r"sum\(\) takes array-number, and was given "),
        ("abs(payload)", ["4111 1111"], r"abs\(\) takes number, and was given array$"),
        (
            "abs(payload)",
            "4111",
            r"abs\(\) takes number, and was given string; convert it first, by to_number",
        ),
    ],
)
def test_an_expression_that_fails_on_a_message_is_named_with_the_types_and_without_a_value(
    expression: str, payload: Any, reason: str
) -> None:
    route = rf"match \({re.escape(expression)}\)"
    with pytest.raises(UnroutableError, match=f"^{route} cannot be evaluated on it: {reason}") as error_info:
        Routes(None, expression).accepts(message(payload))
    assert "4111" not in str(error_info.value)


def test_a_long_expression_is_cut_in_the_error_of_a_message() -> None:
    expression = "payload >= `1000`" + " && payload" * 100
    with pytest.raises(
        UnroutableError, match=r"^match \(payload >= .*\.\.\.\) cannot be evaluated"
    ) as error_info:
        Routes(None, expression).accepts(message("a"))
    assert len(str(error_info.value)) < 400


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("traceparent", "first_four_fields"),
    [
        (f"00-{TRACE}", f"00-{TRACE}"),
        (f"01-{TRACE}", f"01-{TRACE}"),
        (f"01-{TRACE}-of-later", f"01-{TRACE}"),
        (f"cc-{TRACE}-", f"cc-{TRACE}"),
        (f"00-{TRACE}-of-later", None),
        (f"ff-{TRACE}", None),
        (f"01-{TRACE}.of-later", None),
        (f"01-{TRACE}-a\nb", None),
        (f"00-{TRACE}\n", None),
        (f"00-{TRACE.upper()}", None),
        (["00"], None),
    ],
)
def test_a_trace_context_of_a_later_version_counts_by_its_first_four_fields(
    traceparent: Any, first_four_fields: str | None
) -> None:
    routes = Routes("a", trace_context="payload")
    assert routes.trace_context(message(traceparent)) == first_four_fields
