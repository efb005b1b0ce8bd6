"""The messages of the event trigger: their payloads, batches, and those that match no watcher."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_workflow.assets import messages_of
from airflow_provider_workflow.dispatch.delivery import Delivery
from airflow_provider_workflow.dispatch.lease import HeldLease
from tests.unit.dispatch.test_leases import ANY_JSON, ANY_TEXT, message
from tests.unit.fake_clock import FakeClock
from tests.unit.fake_stats import FakeStats
from tests.unit.triggers.conftest import EVEN, FAILS, Triggerer, event_trigger, put
from tests.unit.workbench import Workbench

pytest.importorskip("airflow.triggers.shared_stream", reason="since Airflow 3.3")

from airflow.triggers.shared_stream import AdvanceOutcome

from airflow_provider_workflow.triggers.event_producer import Batch, encode, event_payload


@given(payloads=st.lists(st.tuples(ANY_TEXT.filter(bool), ANY_JSON), max_size=4))
def test_any_messages_cross_unchanged_as_ascii(payloads: list[tuple[str, Any]]) -> None:
    contents = [message(message_id, payload) for message_id, payload in payloads]
    deliveries = [Delivery.of("inbox", content) for content in contents]
    event = event_payload("inbox-\ud800\0", encode(deliveries))
    crossed = json.loads(json.dumps(event))

    assert all(text.isascii() and "\0" not in text for text in (event["messages"], event["inbox_id"]))
    assert set(event) == {"inbox_id", "count", "messages"}
    assert event["count"] == len(contents)
    assert messages_of(crossed) == [
        {
            "id": content["id"],
            "created_at": content["created_at"],
            "payload": content["payload"],
            "message_attributes": content["message_attributes"],
        }
        for content in contents
    ]


def delivery(message_id: str, payload: Any = None) -> Delivery:
    return Delivery.of("inbox", message(message_id, payload))


def test_an_event_is_opened_in_each_form_in_which_a_dag_meets_it() -> None:
    payload = event_payload("i", encode([delivery("a", 1)]))
    extra = {"from_trigger": True, "payload": payload}

    assert messages_of(SimpleNamespace(extra=extra)) == messages_of(extra) == messages_of(payload)


@pytest.mark.parametrize(
    "event", [None, {"payload": None}, SimpleNamespace(extra={}), {"payload": {"messages": [1]}}]
)
def test_another_event_is_refused(event: Any) -> None:
    with pytest.raises(ValueError, match="was not made by WorkflowInboxEventTrigger"):
        messages_of(event)


def batch(*selections: str, acked: int = 0, failed: int = 0, rejected: int = 0) -> Batch:
    """A batch of three messages, and watchers that have selected some of them and emitted their events."""
    messages = encode([delivery(message_id) for message_id in "abc"])
    result = Batch(HeldLease("i", "l", 0.0, "", []), messages)
    result.selected = {event_trigger(): frozenset(ids) for ids in selections}
    result.emitted = set(result.selected)
    result.outcome = AdvanceOutcome(acked=acked, failed=failed, rejected=rejected)
    return result


def test_it_is_stored_if_every_watcher_that_airflow_counts_has_emitted() -> None:
    stored_batch = batch("ab", "b", "", acked=3)

    assert stored_batch.is_stored()
    assert stored_batch.ids(selected=True) == ["a", "b"]
    assert stored_batch.ids(selected=False) == ["c"]


def test_it_is_not_stored_if_airflow_has_not_taken_an_event_of_one_of_them() -> None:
    stored_batch = batch("ab", "bc", acked=2)
    stored_batch.emitted.pop()

    assert not stored_batch.is_stored()


@pytest.mark.parametrize(("acked", "failed", "rejected"), [(1, 1, 0), (1, 0, 1), (3, 0, 0), (0, 0, 0)])
def test_it_is_not_stored_after_a_failure_or_if_a_watcher_has_selected_nothing(
    acked: int, failed: int, rejected: int
) -> None:
    assert not batch("abc", "abc", acked=acked, failed=failed, rejected=rejected).is_stored()


async def test_only_watchers_that_selected_something_must_remain() -> None:
    stored_batch = batch("a", "", acked=2)
    present, bystander = stored_batch.selected
    await bystander.cleanup()
    assert stored_batch.is_stored()

    await present.cleanup()
    assert not stored_batch.is_stored()


async def test_what_no_watcher_selects_is_left_to_its_lease(
    bench: Workbench, triggerer: Triggerer, caplog: pytest.LogCaptureFixture
) -> None:
    put(bench, 1, 2, 3)
    triggerer.start(event_trigger(match=EVEN, lease_limit=2))
    with caplog.at_level(logging.WARNING):
        await triggerer.work(120)

    assert triggerer.stored_ids() == ["m2"]
    assert bench.states == {"m1": "leased", "m3": "leased"}
    assert bench.service.count("release") == 0
    assert caplog.text.count("no watcher in this triggerer selects message m1") == 1
    assert caplog.text.count("no watcher in this triggerer") == 1


async def test_a_message_that_match_fails_on_holds_up_nothing_and_ends_in_quarantine(
    bench: Workbench,
    triggerer: Triggerer,
    held_clock: FakeClock,
    fake_stats: FakeStats,
    caplog: pytest.LogCaptureFixture,
) -> None:
    put(bench, 1)
    bench.put("good", payload={"n": "x"})
    number = triggerer.start(event_trigger(match=FAILS))
    with caplog.at_level(logging.WARNING):
        for _ in range(6):
            await triggerer.work(20)
            bench.service.store.messages.expire()
            await held_clock.elapse(60)

    assert triggerer.stored_ids() == ["good"]
    assert bench.states == {"m1": "quarantined"}
    assert not triggerer.runner.triggers[number]["task"].done()
    assert caplog.text.count("message m1 was rejected: match (length(payload.n) == `1`) cannot") == 5
    assert fake_stats.totals["rejected"] == 5
    assert fake_stats.totals["emitted"] == 1


async def test_the_id_of_a_message_that_no_watcher_takes_adds_no_line_to_the_log(
    bench: Workbench, triggerer: Triggerer, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a\nERROR forged\x1b[31m\u2028", payload={"n": 1})
    triggerer.start(event_trigger(match=FAILS))
    with caplog.at_level(logging.WARNING):
        await triggerer.work(20)

    texts = [record.getMessage() for record in caplog.records]
    assert any("was rejected" in text for text in texts)
    assert any("no watcher in this triggerer" in text for text in texts)
    assert [text for text in texts if not text.isprintable()] == []


async def test_a_message_that_match_fails_on_is_acknowledged_if_another_watcher_selects_it(
    bench: Workbench, triggerer: Triggerer
) -> None:
    put(bench, 1)
    every = triggerer.start(event_trigger())
    triggerer.start(event_trigger(match=FAILS))
    await triggerer.work(20)

    assert triggerer.stored_ids(every) == ["m1"]
    assert bench.states == {}


async def test_any_payload_crosses_and_one_that_is_nested_too_deep_as_its_text(
    bench: Workbench, triggerer: Triggerer
) -> None:
    hostile = {"\0": "\ud800", "__classname__": 2**70}
    deep = json.loads("[" * 900 + "]" * 900)
    bench.put("hostile", payload=hostile)
    bench.put("deep", payload=deep)
    triggerer.start(event_trigger())
    await triggerer.work(15)

    payloads = {message["id"]: message["payload"] for message in triggerer.stored_messages()}
    assert payloads == {"hostile": hostile, "deep": "[" * 900 + "]" * 900}
    assert bench.states == {}


@pytest.fixture(autouse=True)
def airflow_3_4(release: Callable[[int, int], None]) -> None:
    release(3, 4)


async def test_each_message_has_an_event_and_all_are_acknowledged_with_one_call(
    bench: Workbench, triggerer: Triggerer
) -> None:
    ids = put(bench, *range(5))
    triggerer.start(event_trigger(per_message=True))
    await triggerer.work(15)

    assert [[content["id"] for content in messages_of(payload)] for _, payload in triggerer.stored] == [
        [id_] for id_ in ids
    ]
    assert bench.states == {}
    assert bench.service.summary("orders")["counters"]["leases"] == 1
    assert bench.service.count("ack") == 1


async def test_of_messages_with_an_event_of_their_own_only_those_that_match_have_one(
    bench: Workbench, triggerer: Triggerer
) -> None:
    put(bench, *range(5))
    triggerer.start(event_trigger(per_message=True, match=EVEN))
    await triggerer.work(15)

    assert [payload["count"] for _, payload in triggerer.stored] == [1, 1, 1]
    assert triggerer.stored_ids() == ["m0", "m2", "m4"]


async def test_nothing_is_acknowledged_before_the_last_event_is_stored(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2, 3)
    triggerer.start(event_trigger(per_message=True))
    await held_clock.elapse(5)
    *first, last = triggerer.runner.events
    triggerer.streams.confirm_persisted([entry.persist_seq for entry in first])
    await held_clock.elapse(30)
    assert bench.states == dict.fromkeys(("m1", "m2", "m3"), "leased")

    triggerer.streams.confirm_persisted([last.persist_seq])
    await held_clock.elapse(10)
    assert bench.states == {}


async def test_one_that_ends_between_two_events_acknowledges_none_of_them(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    put(bench, 1, 2)
    trigger = triggerer.start(event_trigger(per_message=True))
    await held_clock.elapse(1)
    triggerer.log.gate = asyncio.Event()
    await held_clock.elapse(4)
    await triggerer.end(trigger)
    triggerer.log.gate = None
    await held_clock.elapse(10)
    assert "acknowledged" not in bench.states.values()
    assert set(bench.states) == {"m1", "m2"}

    bench.service.store.messages.expire()
    triggerer.start(event_trigger(per_message=True))
    await triggerer.work(20)
    assert triggerer.stored_ids() == ["m1", "m2"]
    assert bench.states == {}
