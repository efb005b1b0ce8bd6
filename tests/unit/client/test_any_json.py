"""Payloads that are nested deeper than the standard library decodes: nothing of them is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_workflow.client import any_json
from tests.unit.fuzz.payloads import same


def nested(levels: int) -> Any:
    value: Any = {"text": '\ud800 caf\u00e9 "]', "n": [2**70, -1.5e-7, True, None]}
    for level in range(levels):
        value = [value, level] if level % 2 else {"k\u00e9y": value, "": level}
    return value


def text_of(levels: int) -> str:
    inner = json.dumps(nested(0))
    for level in range(levels):
        inner = f"[{inner}, {level}]" if level % 2 else f'{{"kéy": {inner}, "": {level}}}'
    return inner


@pytest.mark.parametrize("levels", [0, 1, 2, 10_000])
def test_any_depth_is_decoded(levels: int) -> None:
    assert same(any_json.decode(text_of(levels)), nested(levels))


@pytest.mark.parametrize("text", ["", "[" * 2000, "]" * 2000, "[" * 2000 + "1, 2" + "]" * 1999, "x"])
def test_what_is_no_json_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        any_json.decode(text)


@pytest.mark.parametrize("levels", [0, 1, 2, 10_000])
def test_any_depth_is_encoded(levels: int) -> None:
    text = any_json.dumped(nested(levels))

    assert text.isascii()
    assert same(any_json.decode(text), nested(levels))


def test_empty_values_at_any_depth_are_encoded() -> None:
    text = "[" * 5000 + '{"a": [], "b": {}, "": null}' + "]" * 5000

    assert any_json.dumped(any_json.decode(text)) == text
