"""A message in a form that Airflow can store, whatever its payload is; and its payload out of that form
again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.airflow_internals import SERIALIZATION_KEYS
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch import payloads
from airflow_provider_workflow.dispatch.payloads import payload_of, storable, unstorable

NUMBERS = st.floats(allow_nan=False) | st.integers()
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(st.characters(codec=None))
ANY_JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner), max_leaves=10
)


def nested(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


def message(payload: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "a", "created_at": "2026-01-01", "payload": payload, "message_attributes": {}, **fields}


@pytest.mark.parametrize("value", [None, 0.5, 2**64 - 1, -(2**63), [{"a": [1]}]])
def test_a_message_that_airflow_can_store_is_left_as_it_is(value: Any) -> None:
    assert storable(message(value)) == message(value)
    assert payload_of(message(value)) == value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (2**64, "an integer of more than 64 bits"),
        (-(2**63) - 1, "an integer of more than 64 bits"),
        (float("inf"), "a number that is not finite"),
        ({"far": -(2.0**64)}, "a number of 2**64 or more"),
        ("a\ud800b", "a lone surrogate"),
        ({"a\udfff": 1}, "a lone surrogate"),
        ({"items": [{"x": 1}, {"total": [2**70]}]}, "an integer of more than 64 bits"),
        ("a\0b", "a NUL character"),
        ({"a\0": 1}, "a NUL character"),
    ],
)
def test_a_payload_that_airflow_cannot_store_is_json_text_and_the_reason_quotes_nothing_of_it(
    value: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    stored = storable(message(value), inbox="orders")

    assert stored["payload"] is None
    assert stored["payload_json"].isascii()
    assert repr(payload_of(stored)) == repr(value)
    assert caplog.messages == [
        "Inbox orders: message a has a value that Airflow cannot store: payload is or contains"
        f" {reason}. If the value is the payload, payload_of() of airflow_provider_workflow.dispatch.payloads"
        " returns it"
    ]
    assert unstorable(stored) is None


@pytest.mark.parametrize("key", sorted(SERIALIZATION_KEYS))
def test_a_key_of_airflows_serialization_is_replaced_where_airflow_rejects_it(
    key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    payload = {"items": [{"name": 1}, {key: "x"}]}

    monkeypatch.setattr(payloads, "reserved_keys", frozenset)
    assert storable(message(payload)) == message(payload)
    monkeypatch.setattr(payloads, "reserved_keys", lambda: SERIALIZATION_KEYS)
    stored = storable(message(payload))
    assert (stored["payload"], payload_of(stored)) == (None, payload)
    assert "payload has a key that Airflow reserves for its serialization" in caplog.text


@pytest.mark.parametrize(
    ("field", "value", "stored"),
    [
        ("id", "a\0b", "a\\x00b"),
        ("created_at", "\ud800", None),
        ("message_attributes", {"error_message": "\0"}, None),
    ],
)
def test_other_fields_that_cannot_be_stored_do_not_cost_the_message(
    field: str, value: Any, stored: Any, caplog: pytest.LogCaptureFixture
) -> None:
    result = storable(message({"n": 1}, **{field: value}))

    assert result[field] == stored
    assert result["payload"] == {"n": 1}
    assert f"{field} is or contains " in caplog.text


def test_depth_counts_from_the_payload_and_ends_at_147() -> None:
    assert unstorable(nested(146)) is None
    assert "147 levels" in str(unstorable(nested(147)))


def test_a_depth_that_would_exhaust_the_stack_is_found_without_recursion() -> None:
    assert "levels" in str(unstorable(nested(100_000)))


@given(ANY_JSON)
def test_whatever_can_be_stored_can_be_sent_to_the_supervisor(value: Any) -> None:
    stored = storable(message(value))
    msgspec.msgpack.encode(stored)
    assert json.dumps(payload_of(stored)) == json.dumps(value)


@pytest.mark.parametrize("text", ["two\nlines", "\ud800", "x" * 1000])
def test_a_string_of_the_service_is_one_short_printable_line_in_a_log(text: str) -> None:
    assert plain(text).isprintable()
    assert len(plain(text)) <= 300


def test_a_payload_too_deep_for_the_standard_library_is_stored_whole() -> None:
    message = storable({"id": "m", "payload": nested(10_000)})

    assert message["payload"] is None
    assert message["payload_json"] == "[" * 10_000 + '"bottom"' + "]" * 10_000


def not_json(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


@pytest.mark.parametrize("payload", ['{"Infinity": 1e400}', "-1e400", '["Infinity", 1, 1e400, "-Infinity"]'])
def test_the_text_of_a_number_without_limits_is_json(payload: str) -> None:
    """Readers in other languages reject the word that Python writes."""
    message = storable({"id": "a", "payload": json.loads(payload)})
    assert json.loads(message["payload_json"], parse_constant=not_json) == json.loads(payload)
    assert payload_of(message) == json.loads(payload)


def test_what_is_no_number_in_json_is_null() -> None:
    """Python also reads the word NaN, which is no JSON."""
    message = storable({"id": "a", "payload": [float("nan"), "NaN"]})
    assert message["payload_json"] == '[null, "NaN"]'
