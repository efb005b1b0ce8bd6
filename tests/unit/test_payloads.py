"""Payloads and texts of any kind, up to hostile ones."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowSkipException
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.airflow_internals import SERIALIZATION_KEYS
from airflow_provider_workflow.client.errors import GuessRejectedError
from airflow_provider_workflow.client.wire import plain
from airflow_provider_workflow.dispatch import payloads
from airflow_provider_workflow.dispatch.payloads import payload_of, storable, unstorable
from airflow_provider_workflow.dispatch.quarantine import report
from airflow_provider_workflow.dispatch.results import Counts
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.operators import manage_inbox
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowEnsureInboxOperator,
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)
from airflow_provider_workflow.operators.workflows import WorkflowGuessOperator
from airflow_provider_workflow.triggers.polling import InboxHealth
from tests.unit.fake_clock import FakeClock, nothing
from tests.unit.sensors.tasks import Task
from tests.unit.triggers.test_inbox import fire, trigger
from tests.unit.workbench import INBOX, Workbench

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


HOSTILE = "abandoned\n2026-01-01 ERROR forged\r\x1b[31mred\x1b[0m\x07\u2028\x00"
SEEN = "abandoned"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """All that a test makes the package log and raise; checked when it ends."""
    caplog.set_level(logging.DEBUG, logger="airflow_provider_workflow")
    raised: list[str] = []
    yield raised
    ours = [each for each in caplog.get_records("call") if each.name.startswith("airflow_provider_workflow")]
    texts = raised + [each.getMessage() for each in ours]
    assert any(SEEN in text for text in texts), texts
    assert [text for text in texts if not text.isprintable()] == []


def force(bench: Workbench, status: str) -> None:
    bench.service.store.inboxes.force(bench.inbox_id, status, HOSTILE)


def ensure(**arguments: Any) -> Any:
    inbox = {"name": INBOX, "app_key": "app", "action_key": "action"}
    return WorkflowEnsureInboxOperator(task_id="t", **inbox, **arguments).execute({})


def fails(said: list[str], call: Callable[[], Any]) -> None:
    with pytest.raises(AirflowException) as caught:
        call()
    said.append(str(caught.value))


@pytest.mark.parametrize("on_paused", ["fail", "wait"])
def test_why_an_inbox_is_paused_as_a_sensor_says_it(
    bench: Workbench, said: list[str], on_paused: str
) -> None:
    force(bench, "paused")
    task = Task(bench, on_paused=on_paused)
    if on_paused == "wait":
        task.execute()
    else:
        fails(said, task.execute)


def test_why_an_inbox_failed_as_a_sensor_says_it(bench: Workbench, said: list[str]) -> None:
    force(bench, "initialization_failure")
    fails(said, Task(bench).execute)


@pytest.mark.usefixtures("said")
async def test_why_an_inbox_is_paused_as_a_waiting_trigger_says_it(
    bench: Workbench, fake_clock: FakeClock
) -> None:
    def resume() -> None:
        bench.service.store.inboxes.resume(bench.inbox_id)
        bench.put("a")

    force(bench, "paused")
    fake_clock.then(nothing, resume)
    await fire(trigger(on_paused="wait"))


def test_why_an_inbox_is_paused_or_failed_as_a_watcher_says_it(said: list[str]) -> None:
    health = InboxHealth(INBOX, logging.getLogger("airflow_provider_workflow.test"))
    health.seen({"status": "paused", "paused_reason": HOSTILE})
    health.seen({"status": HOSTILE})
    fails(said, lambda: health.seen({"status": "initialization_failure", "paused_reason": HOSTILE}))


def ensured_inbox(bench: Workbench, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    inbox = {**bench.hook.get_inbox(INBOX), "paused_reason": HOSTILE, **fields}
    monkeypatch.setattr(manage_inbox, "ensure_inbox", lambda *_: inbox)


def test_why_an_inbox_is_paused_or_failed_as_the_operator_that_ensures_it_says_it(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    ensured_inbox(bench, monkeypatch, status="paused")
    ensure()
    ensured_inbox(bench, monkeypatch, status="initialization_failure", name=HOSTILE)
    fails(said, ensure)
    fails(said, lambda: ensure(recreate_failed=True))


def test_what_is_said_of_an_inbox_that_has_the_name(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    subscription: Any = {"app_key": "app", "action_key": "action", "inputs": {"a": HOSTILE}}
    inbox = {"id": HOSTILE, "name": INBOX, "status": "active", "subscription": subscription}
    monkeypatch.setattr(WorkflowHook, "list_inboxes", lambda *_, **__: [inbox])
    fails(said, lambda: manage_inbox.ensure_inbox(bench.hook, INBOX, subscription, None))


@pytest.mark.parametrize("operator", [WorkflowPauseInboxOperator, WorkflowResumeInboxOperator])
def test_the_state_of_an_inbox_as_the_operators_that_change_it_say_it(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, said: list[str], operator: Any
) -> None:
    inbox = {**bench.hook.get_inbox(INBOX), "status": HOSTILE}
    for name in ("pause_inbox", "resume_inbox"):
        monkeypatch.setattr(WorkflowHook, name, lambda *_: inbox)
    operator(task_id="t", inbox=INBOX).execute({})
    monkeypatch.undo()


def test_why_an_inbox_cannot_be_resumed(bench: Workbench, said: list[str]) -> None:
    force(bench, "initialization_failure")
    fails(said, lambda: WorkflowResumeInboxOperator(task_id="t", inbox=INBOX).execute({}))


@pytest.mark.parametrize("on_rejected", ["fail", "skip"])
def test_why_a_guess_is_rejected(
    connected: Any, monkeypatch: pytest.MonkeyPatch, said: list[str], on_rejected: str
) -> None:
    rejected = GuessRejectedError(f"guess was answered with 400: {SEEN}", status=400, detail=HOSTILE)
    monkeypatch.setattr(WorkflowHook, "guess", Mock(side_effect=rejected))
    with pytest.raises((AirflowSkipException, AirflowFailException)) as caught:
        WorkflowGuessOperator(task_id="t", description="text", on_rejected=on_rejected).execute({})
    said.append(str(caught.value))


@pytest.mark.usefixtures("said")
def test_the_id_of_a_quarantined_message(connected: Any) -> None:
    report([{"id": HOSTILE, "status": "quarantined"}], inbox=INBOX, conn_id="workflow_default")


def test_the_ids_of_refused_messages(said: list[str]) -> None:
    counts = Counts()
    counts.reject(HOSTILE, HOSTILE)
    said += [counts.rejected_text(), *counts.result["rejected"]["ids"]]
