"""What a task receives: messages, and errors instead of messages."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch.receiving import STORE_KEY
from tests.unit.fakes import lost
from tests.unit.workbench import Receipt, TaskTimeout, Workbench


@pytest.fixture
def receipt(bench: Workbench) -> Receipt:
    return Receipt(bench)


def ids(messages: list[dict[str, Any]] | None) -> list[str]:
    return [message["id"] for message in messages or []]


def test_messages_are_acknowledged_after_they_are_stored_as_one_ascii_text_and_read_back(
    bench: Workbench, receipt: Receipt
) -> None:
    ack_counts: list[int] = []
    receipt.store.after_set = lambda: ack_counts.append(bench.service.count("ack"))
    bench.put("a", payload={"text": "é\0"})
    bench.put("b")
    messages = receipt().take(bench.lease())

    assert ids(messages) == ["a", "b"]
    assert ack_counts == [0, 1]
    assert bench.states == {}
    assert set(messages[1]) == {"id", "created_at", "payload", "message_attributes"}
    text = receipt.store.rows[STORE_KEY]
    assert text.isascii()
    assert json.loads(text)["messages"] == messages


@pytest.mark.parametrize(
    ("broken", "error", "text"),
    [
        ({"fault": lost("ConnectError")}, AirflowRuntimeError, "ConnectError"),
        ({"forgets": True}, AirflowException, "none was acknowledged"),
        ({"after_set": Mock(side_effect=lost("ReadTimeout"))}, AirflowRuntimeError, "ReadTimeout"),
        ({"forgets": True, "delete": Mock(side_effect=lost("ReadError"))}, AirflowRuntimeError, "ReadError"),
    ],
)
def test_nothing_is_acknowledged_when_the_store_fails_or_does_not_keep_it(
    bench: Workbench, receipt: Receipt, broken: dict[str, Any], error: type[Exception], text: str
) -> None:
    vars(receipt.store).update(broken)
    bench.put("a")

    with pytest.raises(error, match=text):
        receipt().take(bench.lease())
    assert bench.service.count("ack") == 0
    # A retry must find them in the inbox or in the store, and not in both.
    assert bench.states == {"a": "leased" if "delete" in broken else "available"}
    assert receipt().stored() is None


@pytest.mark.parametrize(
    "fault",
    [{}, {"status": 404}, {"status": 409}, {"status": 400}, {"status": 400, "code": "lease_expired"}],
    ids=lambda fault: fault.get("code", str(fault.get("status", "none"))),
)
def test_a_retry_returns_what_is_stored_and_acknowledges_it_if_that_is_possible(
    bench: Workbench, receipt: Receipt, fault: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="ack", status=503, times=5)
    with pytest.raises(WorkflowError):
        receipt().take(bench.lease())
    assert bench.states == {"a": "leased"}
    if fault:
        bench.service.fault("status", operation="ack", **fault, times=None)

    assert ids(receipt().stored()) == ["a"]
    assert bench.states == ({"a": "leased"} if fault else {})
    assert ("the stored messages cannot be acknowledged any more" in caplog.text) is bool(fault)
    requests = bench.service.count("ack")
    assert ids(receipt().stored()) == ["a"]
    assert bench.service.count("ack") == requests == 6, "it is not tried again"


@pytest.mark.parametrize("error", [TaskTimeout(), lost("ConnectError")])
def test_stored_messages_are_not_released_and_acknowledged_ones_are_returned(
    bench: Workbench, receipt: Receipt, error: BaseException
) -> None:
    is_end = isinstance(error, TaskTimeout)

    def interrupt() -> None:
        if is_end or bench.service.count("ack"):
            raise error

    receipt.store.after_set = interrupt
    bench.put("a")
    with pytest.raises(TaskTimeout) if is_end else nullcontext():
        assert ids(receipt().take(bench.lease())) == ["a"]
    assert bench.states == ({"a": "leased"} if is_end else {})
    receipt.store.after_set = lambda: None
    assert ids(receipt().stored()) == ["a"]
    assert bench.states == {}


def test_what_match_does_not_want_is_left_to_its_lease(bench: Workbench, receipt: Receipt) -> None:
    bench.put("a", payload={"wanted": 1})
    bench.put("b", payload={"wanted": None})
    receiver = receipt("payload.wanted")

    assert ids(receiver.take(bench.lease())) == ["a"]
    assert bench.states == {"b": "leased"}
    assert receiver.counts.handled == 0


def test_an_id_that_an_xcom_cannot_store_refuses_its_message(bench: Workbench, receipt: Receipt) -> None:
    bench.put("a\0", "b")
    receiver = receipt()

    assert ids(receiver.take(bench.lease())) == ["b"]
    assert receiver.counts.result["rejected"]["ids"] == ["a\\x00"]
