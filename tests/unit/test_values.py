"""Which JSON values Airflow can hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow import values

SCALARS = st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters(codec=None))
ANY_JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner), max_leaves=10
)


def nested(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [None, True, "", "\0", "é", 0.5, 2**64 - 1, -(2**63), {"__classname__": "x"}, [{"a": [1]}]]
)
def test_what_airflow_can_hold_is_no_problem(value: Any) -> None:
    assert values.problem(value) is None


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (2**64, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (float("inf"), "not finite"),
        (float("nan"), "not finite"),
        (1e20, "2**64"),
        ({"far": -(2.0**64)}, "2**64"),
        ("a\ud800b", "surrogate"),
        ({"a\udfff": 1}, "surrogate"),
        ([{"deep": [2**70]}], "64 bits"),
    ],
)
def test_what_airflow_cannot_hold_is_named(value: Any, named: str) -> None:
    assert named in (values.problem(value) or "")


def test_depth_counts_from_the_outermost_value_and_ends_at_150() -> None:
    assert values.problem(nested(149)) is None
    assert "150 levels" in (values.problem(nested(150)) or "")


def test_a_depth_that_would_exhaust_the_stack_is_only_a_problem() -> None:
    assert "levels" in (values.problem(nested(100_000)) or "")


@given(ANY_JSON)
def test_whatever_is_no_problem_can_be_sent_to_the_supervisor(value: Any) -> None:
    if values.problem(value) is None:
        msgspec.msgpack.encode(value)


@pytest.mark.parametrize("value", ["\0", ["\0"], {"\0": 1}, {"a": [{"b": "x\0y"}]}])
def test_a_nul_is_found_wherever_it_is(value: Any) -> None:
    assert values.has_nul(value)


@pytest.mark.parametrize("value", [None, 0, "", "\\0", [], {"a": [1, {"b": "c"}]}])
def test_no_nul_is_found_where_there_is_none(value: Any) -> None:
    assert not values.has_nul(value)
