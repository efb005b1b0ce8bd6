"""Which messages a sensor does not return: those that are not wanted, and those that an XCom cannot hold."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError

from tests.unit.fakes import lost
from tests.unit.receipts import Receipt, ids, receipt
from tests.unit.workbench import Workbench

__all__ = ["receipt"]


def test_what_match_does_not_want_is_left_to_its_lease(bench: Workbench, receipt: Receipt) -> None:
    bench.put("a", payload={"wanted": 1})
    bench.put("b", payload={"wanted": None})
    receiver = receipt("payload.wanted")

    assert ids(receiver.take(bench.lease())) == ["a"]
    assert bench.states == {"b": "leased"}
    assert receiver.tally.handled == 0


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
        {"__type": "dict", "__var": {"a": 1}},
        {"__type": "datetime", "__var": "x"},
        "\ud800",
        2**70,
        float("nan"),
    ],
)
def test_what_an_xcom_cannot_hold_is_refused_and_left(
    bench: Workbench, receipt: Receipt, payload: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("bad", payload={"v": payload})
    bench.put("good")
    receiver = receipt()

    assert ids(receiver.take(bench.lease())) == ["good"]
    assert bench.states == {"bad": "leased"}
    assert receiver.tally.result["refused"]["ids"] == ["bad"]
    assert "message bad was refused: XCom" in caplog.text


@pytest.mark.parametrize("refuses", [True, False])
def test_only_the_database_says_whether_it_holds_a_nul(
    bench: Workbench, receipt: Receipt, refuses: bool
) -> None:
    bench.ti.refuses_nul = refuses
    bench.put("nul", payload="\0")

    assert ids(receipt().take(bench.lease())) == ([] if refuses else ["nul"])


def test_a_lost_api_server_is_no_fault_of_a_message(
    bench: Workbench, receipt: Receipt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> None:
        raise lost("ConnectError")

    monkeypatch.setattr(bench.ti, "xcom_push", fail, raising=False)
    bench.put("nul", payload="\0")

    with pytest.raises(AirflowRuntimeError):
        receipt().take(bench.lease())


def test_an_expression_that_fails_refuses_its_message(bench: Workbench, receipt: Receipt) -> None:
    bench.put("bad", payload=5)
    bench.put("good", payload="text")

    assert ids(receipt("length(payload)").take(bench.lease())) == ["good"]


def test_a_message_refused_on_its_last_lease_is_an_error_line(
    bench: Workbench, receipt: Receipt, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("bad", payload=2**70, lease_count=4)
    receipt().take(bench.lease())

    assert [each.levelno for each in caplog.records] == [logging.ERROR]
