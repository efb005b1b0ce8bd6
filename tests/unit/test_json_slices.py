"""JSON that is written in slices is the same JSON, and no slice is a long one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.client import json_steps
from airflow_provider_workflow.client.json_steps import CHARACTERS, DEEPEST, UNITS, in_slices
from tests.unit.test_leases import ANY_JSON

LARGE: dict[str, Any] = {
    "one string": "x" * 1_000_000,
    "one string of other characters": "é\ud800\U0001f600" * 300_000,
    "numbers": list(range(150_000)),
    "small dictionaries": [
        {"id": number, "text": "some text", "tags": ["a", None]} for number in range(9_000)
    ],
    "a large dictionary": {f"key {number}": {"n": [number, True]} for number in range(20_000)},
    "a long key": {"k" * 500_000: 1, "b": [1.5] * 30_000},
    "levels of large lists": [[[list(range(30_000)), "x" * 400_000], {}], []],
}


@given(value=ANY_JSON, units=st.integers(1, 12))
def test_slices_of_any_size_make_the_text_that_json_dumps_makes(value: Any, units: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_steps, "UNITS", units)
        patched.setattr(json_steps, "CHARACTERS", units)
        assert "".join(in_slices(value)) == json.dumps(value)


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_no_slice_of_a_large_value_writes_much_more_than_another(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    class Noted:
        @staticmethod
        def dumps(part: Any) -> str:
            written.append(json_steps.units_of(part))
            return json.dumps(part)

    monkeypatch.setattr(json_steps, "json", Noted)
    parts = list(in_slices(value))

    assert "".join(parts) == json.dumps(value)
    assert len(written) > 10
    assert max(written) <= UNITS + 1
    assert max(len(part) for part in parts) <= 12 * CHARACTERS, "each character may become 12 of ASCII"


def test_a_small_value_is_one_slice() -> None:
    assert list(in_slices({"id": "a", "payload": {"n": [1, 2]}})) == ['{"id": "a", "payload": {"n": [1, 2]}}']


@pytest.mark.parametrize("depth", [50, 400])
def test_a_large_value_at_any_depth_that_json_dumps_writes_is_written(depth: int) -> None:
    value: Any = LARGE["small dictionaries"]
    for level in range(depth):
        value = {"level": level, "next": value}
    parts = list(in_slices(value))

    assert "".join(parts) == json.dumps(value)
    assert (max(map(len, parts)) > 4 * CHARACTERS) is (depth > DEEPEST), "what is deepest is written at once"


def test_what_is_nested_too_deep_says_so_as_json_dumps_does() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]

    with pytest.raises(RecursionError):
        list(in_slices(value))
