"""Any message crosses to a DAG as the service sent it, as one ASCII text."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.assets import messages_of
from tests.unit.test_leases import ANY_JSON, ANY_TEXT, message

pytest.importorskip("airflow.triggers.shared_stream", reason="since Airflow 3.3")

from airflow_provider_workflow.triggers.event_producer import encode, event_payload


@given(payloads=st.lists(st.tuples(ANY_TEXT.filter(bool), ANY_JSON), max_size=4))
def test_any_messages_cross_unchanged_as_ascii(payloads: list[tuple[str, Any]]) -> None:
    sent = [message(message_id, payload) for message_id, payload in payloads]
    event = event_payload("inbox-\ud800\0", encode(sent)[0])
    crossed = json.loads(json.dumps(event))

    assert all(text.isascii() and "\0" not in text for text in (event["messages"], event["inbox_id"]))
    assert event["count"] == len(sent)
    assert messages_of(crossed) == [
        {
            "id": each["id"],
            "created_at": each["created_at"],
            "payload": each["payload"],
            "message_attributes": each["message_attributes"],
        }
        for each in sent
    ]


def test_nothing_of_the_lease_is_shown() -> None:
    event = event_payload("i", encode([message("a")])[0])

    assert set(messages_of(event)[0]) == {
        "id",
        "created_at",
        "payload",
        "message_attributes",
    }
    assert set(event) == {"inbox_id", "count", "messages"}


def test_a_message_that_no_text_can_hold_is_refused() -> None:
    payload: list[Any] = []
    for _ in range(100_000):
        payload = [payload]

    written, causes = encode([message("a", payload), message("b")])
    assert [each.id for each in written] == ["b"]
    assert causes == [("a", "it is nested too deep")]


def test_an_event_is_opened_in_each_form_in_which_a_dag_meets_it() -> None:
    payload = event_payload("i", encode([message("a", 1)])[0])
    extra = {"from_trigger": True, "payload": payload}

    assert messages_of(SimpleNamespace(extra=extra)) == messages_of(extra) == messages_of(payload)


@pytest.mark.parametrize(
    "event", [None, {"payload": None}, SimpleNamespace(extra={}), {"payload": {"messages": [1]}}]
)
def test_another_event_is_refused(event: Any) -> None:
    with pytest.raises(ValueError, match="was not made by WorkflowInboxEventTrigger"):
        messages_of(event)
