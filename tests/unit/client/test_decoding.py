"""A body that is decoded in steps is the same value, and each step is a short one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.client import json_steps
from airflow_provider_workflow.client.json_steps import decoded
from airflow_provider_workflow.client.wire import Answer
from tests.unit.paces import Counting
from tests.unit.test_leases import ANY_JSON


def nested(depth: int, innermost: Any) -> Any:
    value = innermost
    for level in range(depth):
        value = {"level": level, "next": value}
    return value


LARGE: dict[str, tuple[Any, int]] = {
    "many small objects": ([{"id": n, "name": f"item {n}", "tags": ["a"]} for n in range(20_000)], 40_000),
    "50 levels": (nested(50, [{"name": f"item {n}"} for n in range(30_000)]), 30_000),
    "numbers": ([*range(70_000), *(n / 7 for n in range(30_000))], 100_000),
    "one object of strings": ({f"field {n}": f"value {n}" for n in range(30_000)}, 30_000),
    "rows of strings": ([[f"a{n}", "b", "some text"] for n in range(30_000)], 90_000),
}
"""Values of about a megabyte, with the steps that they are decoded in at least."""


@given(value=ANY_JSON, flat=st.booleans(), ascii_only=st.booleans())
def test_steps_make_the_value_that_json_loads_makes(value: Any, flat: bool, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_steps, "is_flat", lambda _: flat)
        patched.setattr(json_steps, "MEMBERS", 2)
        found = decoded(body, Counting())

    assert json.dumps(found) == json.dumps(json.loads(body)), "in the same order, too"


@pytest.mark.parametrize(("value", "steps"), LARGE.values(), ids=LARGE)
def test_a_large_value_is_decoded_in_as_many_steps_as_it_has_parts(value: Any, steps: int) -> None:
    pace = Counting()

    assert decoded(json.dumps(value).encode(), pace) == value
    assert pace.calls >= steps


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x" * 1_000_000, False),
        (list(range(100_000)), False),
        ([{"name": f"item {n}"} for n in range(50_000)], False),
        ({f"field {n}": f"value {n}" for n in range(30_000)}, True),
        ([{"text": "x" * 300_000}, {f"field {n}": "" for n in range(30_000)}], True),
        ([f"value {n}" for n in range(300)], False),
    ],
    ids=["one string", "numbers", "objects", "members", "members behind a long string", "small"],
)
def test_only_what_the_decoder_in_c_cannot_interrupt_is_decoded_in_python(value: Any, expected: bool) -> None:
    assert json_steps.is_flat(json.dumps(value).encode()) is expected


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("before", [b"", b"<", b"\xff"], ids=["cut short", "a page", "no text"])
def test_what_is_not_json_says_so(flat: bool, before: bytes) -> None:
    value = [f"value {n}" for n in range(30_000)] if flat else [{"n": 1}]
    with pytest.raises(ValueError):
        decoded(before + json.dumps(value).encode()[:-1], Counting())


@pytest.mark.parametrize("pace", [None, Counting()], ids=["at once", "in steps"])
def test_one_number_of_too_many_digits_hides_nothing(pace: Counting | None) -> None:
    body = b'[{"n": %s}, 2]' % (b"9" * 5000)

    assert Answer(200, {}, body, pace).json() == [{"n": float("inf")}, 2]


def test_what_is_too_deep_for_the_decoder_in_python_is_decoded_in_c() -> None:
    strings = json.dumps([f"value {n}" for n in range(30_000)]).encode()
    body = b"[" * 600 + strings + b"]" * 600

    assert json_steps.is_flat(body)
    assert json.dumps(decoded(body, Counting())).encode() == body


def test_in_a_task_nothing_calls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given_to_json: list[dict[str, Any]] = []

    def loads(body: bytes, **given: Any) -> Any:
        given_to_json.append(given)
        return {}

    monkeypatch.setattr(json, "loads", loads)

    assert Answer(200, {}, b'{"n": [1]}').json() == {}
    assert given_to_json == [{}]
