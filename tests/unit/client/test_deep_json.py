"""Payloads that are nested deeper than the standard library decodes: nothing of them is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_workflow.client import deep_json
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
    assert same(deep_json.decode(text_of(levels)), nested(levels))


@pytest.mark.parametrize("text", ["", "[" * 2000, "]" * 2000, "[" * 2000 + "1, 2" + "]" * 1999, "x"])
def test_what_is_no_json_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        deep_json.decode(text)


@pytest.mark.parametrize("levels", [296, 297, 298, 10_000])
def test_a_payload_that_is_shortened_is_also_returned_whole(levels: int) -> None:
    payloads = [text_of(levels), '{"n": 1}', text_of(levels)]
    messages = ", ".join(f'{{"id": "{n}", "payload": {text}}}' for n, text in enumerate(payloads))
    body = f'{{"results": [{messages}]}}'.encode()
    texts = deep_json.whole_payloads(body)

    shortened = json.loads(deep_json.shortened(body))["results"]
    left = [n for n, each in enumerate(shortened) if not same(each["payload"], nested(levels))]
    assert list(texts) == [n for n in left if n != 1]
    assert all(text.isascii() and same(deep_json.decode(text), nested(levels)) for text in texts.values())
