"""Payloads and texts of any kind, up to hostile ones."""

from __future__ import annotations

import logging
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException

from airflow_provider_workflow.airflow_internals import SERIALIZATION_KEYS
from airflow_provider_workflow.client import tolerant_json
from airflow_provider_workflow.client.errors import GuessRejectedError
from airflow_provider_workflow.dispatch import payloads
from airflow_provider_workflow.dispatch.payloads import payload_of, storable, why_unstorable
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.operators import manage_inbox
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
)
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator
from airflow_provider_workflow.triggers.polling import InboxHealth
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import INBOX, Workbench


def message(payload: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "a", "created_at": "2026-01-01", "payload": payload, "message_attributes": {}, **fields}


def test_a_message_that_airflow_can_store_is_left_as_it_is() -> None:
    payload = [None, 0.5, 2**64 - 1, -(2**63), {"a": [1]}]

    assert storable(message(payload)) == message(payload)
    assert payload_of(message(payload)) == payload


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (2**64, "an integer of more than 64 bits"),
        (-(2**63) - 1, "an integer of more than 64 bits"),
        (float("inf"), "a number that is not finite"),
        ({"far": -(2.0**64)}, "a number of 2**64 or more in magnitude"),
        ("a\ud800b", "a lone surrogate"),
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
        f" {reason}. It is stored as a JSON string, which payload_of() of"
        " airflow_provider_workflow.dispatch.payloads decodes"
    ]
    assert why_unstorable(stored, "value") is None


def test_a_key_of_airflows_serialization_is_replaced_where_airflow_rejects_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    payload = {"items": [{"name": 1}, {"__classname__": "x"}]}

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


def test_a_payload_of_more_than_147_levels_is_stored_as_text() -> None:
    value = tolerant_json.decode("[" * 146 + "0" + "]" * 146)
    assert why_unstorable(value, "value") is None
    assert "147 levels" in str(why_unstorable([value], "value"))
    text = "[" * 900 + "]" * 900
    message = storable({"id": "m", "payload": tolerant_json.decode(text)})
    assert (message["payload"], message["payload_json"]) == (None, text)


def test_a_wide_payload_is_checked_without_memory_for_its_entries() -> None:
    tracemalloc.start()
    assert why_unstorable([[0] * 100_000, dict.fromkeys("ab", [""] * 50_000)], "value") is None
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2_000_000, "of which the lists have 1,200,000"


def test_the_text_of_a_number_without_limits_is_json() -> None:
    """Readers in other languages reject the words that Python writes."""
    payload = [{"Infinity": float("inf")}, -float("inf"), float("nan"), "Infinity", "-Infinity", "NaN"]
    text = storable(message(payload))["payload_json"]

    assert text == '[{"Infinity": 1e999}, -1e999, null, "Infinity", "-Infinity", "NaN"]'
    assert payload_of({"payload_json": text})[:2] == payload[:2]


HOSTILE = "abandoned\n2026-01-01 ERROR forged\r\x1b[31mred\x1b[0m\x07\u2028\x00"
SEEN = "abandoned"


@pytest.fixture
def texts(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """All that a test makes the package log and raise; checked when it ends."""
    caplog.set_level(logging.DEBUG, logger="airflow_provider_workflow")
    error_texts: list[str] = []
    yield error_texts
    ours = [
        record for record in caplog.get_records("call") if record.name.startswith("airflow_provider_workflow")
    ]
    all_texts = error_texts + [record.getMessage() for record in ours]
    assert any(SEEN in text for text in all_texts), all_texts
    assert [text for text in all_texts if not text.isprintable()] == []


def force(bench: Workbench, status: str) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, status, HOSTILE)


def fails(texts: list[str], call: Callable[[], Any]) -> None:
    with pytest.raises(AirflowException) as error_info:
        call()
    texts.append(str(error_info.value))


@pytest.mark.usefixtures("pauses")
def test_why_an_inbox_is_paused_or_failed_as_a_sensor_says_it(bench: Workbench, texts: list[str]) -> None:
    for status in ("paused", "initialization_failure"):
        force(bench, status)
        fails(texts, Task(bench, deferrable=False, timeout=3600).execute)


def test_why_an_inbox_is_paused_or_failed_as_a_watcher_says_it(texts: list[str]) -> None:
    health = InboxHealth(INBOX, "c", logging.getLogger("airflow_provider_workflow.test"))
    health.seen({"status": "paused", "paused_reason": HOSTILE})
    health.seen({"status": HOSTILE})
    fails(texts, lambda: health.seen({"status": "initialization_failure", "paused_reason": HOSTILE}))


def test_what_an_operator_says_of_an_inbox_that_it_ensures_or_changes(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, texts: list[str]
) -> None:
    subscription: Any = {"app_key": "app", "action_key": "action", "inputs": {"a": HOSTILE}}
    inbox = {**bench.hook.get_inbox(INBOX), "paused_reason": HOSTILE}

    def ensure(status: str, **arguments: Any) -> None:
        monkeypatch.setattr(manage_inbox, "ensure_inbox", lambda *_: {**inbox, "status": status})
        all_arguments = {"name": INBOX, "app_key": "app", "action_key": "action", **arguments}
        WorkflowEnsureInboxOperator(task_id="t", **all_arguments).execute({})

    other_inbox = {"id": HOSTILE, "name": INBOX, "status": "active", "subscription": subscription}
    with monkeypatch.context() as patched:
        patched.setattr(WorkflowHook, "list_inboxes", lambda *_, **__: [other_inbox])
        fails(texts, lambda: manage_inbox.ensure_inbox(bench.hook, INBOX, subscription, None))
    ensure("paused")
    fails(texts, lambda: ensure("initialization_failure"))
    monkeypatch.setattr(WorkflowHook, "pause_inbox", lambda *_: {**inbox, "status": HOSTILE})
    WorkflowPauseInboxOperator(task_id="t", inbox=INBOX).execute({})


@pytest.mark.usefixtures("connected_emulator")
def test_why_a_guess_is_rejected(monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    rejected = GuessRejectedError(f"guess was answered with 400: {SEEN}", status=400, detail=HOSTILE)
    monkeypatch.setattr(WorkflowHook, "guess", Mock(side_effect=rejected))
    for on_rejected in ("fail", "skip"):
        with pytest.raises((AirflowSkipException, AirflowFailException)) as error_info:
            WorkflowGuessOperator(task_id="t", description="text", on_rejected=on_rejected).execute({})
        texts.append(str(error_info.value))
