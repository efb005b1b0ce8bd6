"""Which messages a sensor does not return: those that are not wanted, and those that an XCom cannot hold."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_workflow.dispatch.payloads import payload_of
from tests.unit.receipts import Receipt, ids, receipt
from tests.unit.workbench import Workbench

__all__ = ["receipt"]


def test_what_match_does_not_want_is_left_to_its_lease(bench: Workbench, receipt: Receipt) -> None:
    bench.put("a", payload={"wanted": 1})
    bench.put("b", payload={"wanted": None})
    receiver = receipt("payload.wanted")

    assert ids(receiver.take(bench.lease())) == ["a"]
    assert bench.states == {"b": "leased"}
    assert receiver.counts.handled == 0


@pytest.mark.parametrize("method", ["take", "lend"])
def test_a_lease_without_wanted_messages_is_nothing(bench: Workbench, receipt: Receipt, method: str) -> None:
    bench.put("a")

    assert not getattr(receipt("payload.wanted"), method)(bench.lease())
    assert receipt.store.rows == {}


@pytest.mark.parametrize(
    "payload",
    [
        {"__classname__": "builtins.set"},
        {"deep": [{"__id__": 1}]},
        {"__type": "datetime", "__var": "x"},
        "\ud800",
        2**70,
    ],
)
def test_a_payload_that_an_xcom_cannot_store_is_returned_as_json_text(
    bench: Workbench, receipt: Receipt, payload: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("odd", payload={"v": payload})
    bench.put("good")
    receiver = receipt()
    odd, good = receiver.take(bench.lease())

    assert odd["payload"] is None
    assert repr(payload_of(odd)) == repr({"v": payload})
    assert good["payload"] == {"n": "good"}
    assert bench.states == {}
    assert receiver.counts.result["rejected"]["count"] == 0
    assert "message odd has a value that Airflow cannot store: payload" in caplog.text


def test_an_id_that_an_xcom_cannot_store_refuses_its_message(bench: Workbench, receipt: Receipt) -> None:
    bench.put("a\0", "b")
    receiver = receipt()

    assert ids(receiver.take(bench.lease())) == ["b"]
    assert receiver.counts.result["rejected"]["ids"] == ["a\\x00"]


def test_an_expression_that_fails_refuses_its_message(bench: Workbench, receipt: Receipt) -> None:
    bench.put("bad", payload=5)
    bench.put("good", payload="text")

    assert ids(receipt("length(payload)").take(bench.lease())) == ["good"]
