"""What was emitted is remembered: in this process, and in the asset's state store beyond it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse

from airflow_provider_workflow.process_state import reset as forget
from tests.unit.triggers.triggerer import Store

pytest.importorskip("airflow.triggers.shared_stream", reason="Airflow acknowledges asset events since 3.3")

from airflow.sdk.execution_time.comms import AssetStateStoreResult
from airflow.sdk.execution_time.context import AssetStateStoreAccessors

from airflow_provider_workflow.triggers.event_watcher import MOST_REMEMBERED, Emitted

REFUSED = AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 404}))


@pytest.fixture(autouse=True)
def new_process() -> None:
    """It knows nothing."""
    forget()


class OldStore:
    """A state store before Airflow 3.3.2, which would block the event loop."""

    def set(self, key: str, value: Any) -> None:
        raise AssertionError("it would block")

    get = set


async def test_what_was_emitted_is_known_to_the_next_trigger_of_this_process() -> None:
    assert await Emitted(None, "c/orders").remember(["a"]) is False

    assert Emitted(None, "c/orders").among(["a", "b"]) == {"a"}
    assert Emitted(None, "c/invoices").among(["a"]) == frozenset()


async def test_it_is_known_to_the_next_process() -> None:
    store = Store()
    assert await Emitted(store, "c/orders").remember(["a", "\ud800"]) is True
    forget()
    after = Emitted(Store(rows=store.rows), "c/orders")
    assert after.among(["a"]) == frozenset()
    await after.load()

    assert after.among(["a", "\ud800", "b"]) == {"a", "\ud800"}


async def test_another_asset_has_not_seen_it() -> None:
    await Emitted(Store("orders"), "c/orders").remember(["a"])

    assert Emitted(Store("other"), "c/orders").among(["a"]) == frozenset()


async def test_inboxes_share_a_store_without_disturbing_each_other() -> None:
    store = Store()
    await Emitted(store, "c/orders").remember(["a"])
    await Emitted(store, "c/invoices").remember(["b"])
    forget()
    orders = Emitted(store, "c/orders")
    await orders.load()

    assert orders.among(["a", "b"]) == {"a"}


class Comms:
    """A supervisor that keeps what assets store, by asset and key."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Any] = {}

    async def asend(self, message: Any) -> Any:
        if hasattr(message, "value"):
            self.rows[message.name, message.key] = message.value
            return None
        return AssetStateStoreResult(value=self.rows.get((message.name, message.key)))


async def test_what_a_trigger_of_two_assets_emitted_is_in_the_store_of_each(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    comms = Comms()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms, raising=False)
    both, one = (AssetStateStoreAccessors([Asset(name) for name in names]) for names in ("ab", "b"))
    assert await Emitted(both, "c/orders").remember(["m1"]) is True
    assert {asset for asset, _ in comms.rows} == {"a", "b"}

    forget()
    for store in (both, one):
        after = Emitted(store, "c/orders")
        await after.load()
        assert after.among(["m1", "m2"]) == {"m1"}
    assert caplog.text == ""


async def test_the_latest_are_kept_within_what_airflow_stores_without_a_warning() -> None:
    store = Store()
    memory = Emitted(store, "c/orders")
    ids = [f"message-{number}" for number in range(MOST_REMEMBERED + 100)]
    for at in range(0, len(ids), 100):
        await memory.remember(ids[at : at + 100])

    assert memory.among(ids) == set(ids[100:])
    assert len(json.dumps(next(iter(store.rows.values())))) < 65_535


async def test_what_this_process_has_emitted_since_stays_when_the_store_is_read() -> None:
    store = Store()
    memory = Emitted(store, "c/orders")
    await memory.remember(["a"])
    store.rows[next(iter(store.rows))] = []
    await memory.load()

    assert memory.among(["a"]) == {"a"}


@pytest.mark.parametrize("rubbish", [None, "text"])
async def test_a_store_that_holds_something_else_is_as_good_as_empty(rubbish: Any) -> None:
    store = Store()
    memory = Emitted(store, "c/orders")
    await memory.remember(["a"])
    store.rows[next(iter(store.rows))] = rubbish
    await memory.load()

    assert memory.among(["a", "b"]) == {"a"}


@pytest.mark.parametrize(("fault", "answered"), [(REFUSED, True), (RuntimeError("made up"), False)])
async def test_a_store_that_fails_is_complained_of_once_and_the_memory_goes_on(
    fault: Exception, answered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store()
    store.fault = fault
    memory = Emitted(store, "c/orders")
    with caplog.at_level(logging.WARNING):
        await memory.load()
        answers = [await memory.remember([each]) for each in "ab"]

    assert answers == [answered, answered]
    assert memory.among(["a", "b"]) == {"a", "b"}
    assert caplog.text.count("state store cannot be used") == 1


async def test_a_store_that_would_block_is_left_alone() -> None:
    memory = Emitted(OldStore(), "c/orders")  # type: ignore[arg-type]
    await memory.load()

    assert await memory.remember(["a"]) is False
    assert memory.among(["a"]) == {"a"}
