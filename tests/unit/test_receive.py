"""Messages are stored, read back, and only then acknowledged; a retry finds what was stored."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError

from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.receive import STORE_KEY, Receiver
from airflow_provider_workflow.routing import Routes
from tests.unit.fakes import StateStore, api_error, lost
from tests.unit.workbench import INBOX, Workbench


class Receipt:
    """A receiver of the inbox, its store, and its task."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.store = StateStore()
        self.context = {"ti": bench.ti, "task_state_store": self.store}

    def __call__(self, match: str | None = None) -> Receiver:
        """A receiver as each try of the task makes it."""
        return Receiver(self.bench.hook, INBOX, Routes(None, match), self.context)


@pytest.fixture
def receipt(bench: Workbench) -> Receipt:
    return Receipt(bench)


def ids(messages: list[dict[str, Any]] | None) -> list[str]:
    return [message["id"] for message in messages or []]


def test_messages_are_acknowledged_after_they_are_stored_and_read_back(
    bench: Workbench, receipt: Receipt
) -> None:
    acknowledged: list[int] = []
    receipt.store.after_set = lambda: acknowledged.append(bench.service.count("ack"))
    bench.put("a", "b")
    messages = receipt().take(bench.lease())

    assert ids(messages) == ["a", "b"]
    assert acknowledged == [0, 1]
    assert bench.states == {}
    assert set(messages[0]) == {"id", "created_at", "payload", "message_attributes"}


def test_what_is_stored_is_one_ascii_text(bench: Workbench, receipt: Receipt) -> None:
    bench.put("a", payload={"text": "é\0"})
    messages = receipt().take(bench.lease())

    text = receipt.store.rows[STORE_KEY]
    assert isinstance(text, str)
    assert text.isascii()
    assert json.loads(text)["messages"] == messages


@pytest.mark.parametrize("fault", [ValueError("no"), api_error(422), lost("ConnectError")])
def test_nothing_is_acknowledged_when_storing_fails(
    bench: Workbench, receipt: Receipt, fault: Exception
) -> None:
    receipt.store.fault = fault
    bench.put("a")

    with pytest.raises(type(fault)):
        receipt().take(bench.lease())
    assert bench.service.count("ack") == 0


def test_nothing_is_acknowledged_when_the_store_does_not_keep_it(bench: Workbench, receipt: Receipt) -> None:
    receipt.store.forgets = True
    bench.put("a")

    with pytest.raises(AirflowException, match="none was acknowledged"):
        receipt().take(bench.lease())
    assert bench.service.count("ack") == 0


def test_a_first_try_finds_nothing_stored(receipt: Receipt) -> None:
    assert receipt().stored() is None


def test_a_retry_returns_what_was_stored_without_any_request(bench: Workbench, receipt: Receipt) -> None:
    bench.put("a")
    messages = receipt().take(bench.lease())
    before = len(bench.service.requests)

    assert receipt().stored() == messages
    assert len(bench.service.requests) == before


def test_a_retry_makes_up_for_an_acknowledgement_that_failed(bench: Workbench, receipt: Receipt) -> None:
    bench.put("a")
    bench.service.fault("status", operation="ack", status=503, times=5)
    with pytest.raises(WorkflowError):
        receipt().take(bench.lease())
    assert bench.states == {"a": "leased"}

    assert ids(receipt().stored()) == ["a"]
    assert bench.states == {}
    assert ids(receipt().stored()) == ["a"]
    assert len(bench.sent("ack")) == 6


def test_a_retry_whose_lease_has_ended_returns_the_messages_all_the_same(
    bench: Workbench, receipt: Receipt, clock: ManualClock
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="ack", status=503, times=5)
    with pytest.raises(WorkflowError):
        receipt().take(bench.lease())
    clock.advance(301)

    assert ids(receipt().stored()) == ["a"]


def test_manual_returns_the_lease_and_acknowledges_nothing(bench: Workbench, receipt: Receipt) -> None:
    bench.put("a")
    lease = bench.lease()
    lent = receipt().lend(lease)

    assert lent is not None
    assert (lent["lease_id"], lent["inbox_id"]) == (lease.lease_id, bench.inbox_id)
    assert lent["leased_until"] == lease.leased_until
    assert ids(lent["messages"]) == ["a"]
    assert bench.service.count("ack") == 0
    assert receipt.store.rows == {}


def test_messages_without_manual_hold_no_lease_id(bench: Workbench, receipt: Receipt) -> None:
    bench.put("a")
    lease = bench.lease()

    assert lease.lease_id not in json.dumps(receipt().take(lease))


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
