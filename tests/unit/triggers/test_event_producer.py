"""The producer of asset events acknowledges messages after their events are stored, whatever fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from airflow_provider_workflow.emulator.rules.queues import Messages
from airflow_provider_workflow.triggers.event import WorkflowInboxEventTrigger
from tests.unit.fake_clock import FakeClock
from tests.unit.triggers.conftest import PATIENCE_SECONDS, Triggerer, being_deleted, beside, event_trigger
from tests.unit.workbench import Workbench

pytest.importorskip("airflow.triggers.shared_stream", reason="Airflow acknowledges asset events since 3.3")

from airflow_provider_workflow.triggers.event_producer import CLOSING_SECONDS, MAX_UNSETTLED_BATCHES


def ours(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (record.levelname, record.getMessage().split(":")[0])
        for record in caplog.records
        if record.name.startswith("airflow_provider_workflow.triggers")
    ]


def is_running(triggerer: Triggerer, number: int) -> bool:
    return not triggerer.runner.triggers[number]["task"].done()


async def test_a_fault_that_passes_is_outlasted_with_pauses_and_two_lines(
    bench: Workbench, triggerer: Triggerer, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="lease", status=503, times=4)
    number = triggerer.start(event_trigger())
    with caplog.at_level(logging.INFO):
        await triggerer.work(400)

    assert is_running(triggerer, number)
    assert triggerer.stored_ids() == ["a"]
    assert bench.states == {}
    lines = ours(caplog)
    assert ("WARNING", "Inbox orders is unreachable; retrying") in lines
    assert ("INFO", "Inbox orders is reachable again") in lines
    assert len(lines) <= 4


async def test_what_somebody_has_to_fix_is_an_error_once_and_the_watcher_goes_on_when_it_is(
    bench: Workbench, triggerer: Triggerer, caplog: pytest.LogCaptureFixture
) -> None:
    number = triggerer.start(event_trigger(inbox="later"))
    with caplog.at_level(logging.INFO):
        await triggerer.work(250)
        request_count = len(bench.service.requests)
        bench.service.open_inbox("later")
        bench.service.put("later", {"n": 1}, ids=["a"])
        await triggerer.work(400)

    assert is_running(triggerer, number)
    assert request_count < 20
    assert triggerer.stored_ids() == ["a"]
    assert [level for level, _ in ours(caplog)].count("ERROR") == 1


async def test_a_paused_inbox_is_said_to_be_so_once_and_waited_for(
    bench: Workbench, triggerer: Triggerer, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.store.inboxes.force(bench.inbox_id, "paused", "abandoned")
    triggerer.start(event_trigger())
    with caplog.at_level(logging.INFO):
        await triggerer.work(200)
        bench.service.store.inboxes.resume(bench.inbox_id)
        bench.put("b")
        await triggerer.work(100)

    assert triggerer.stored_ids() == ["a", "b"]
    assert caplog.text.count("is paused (abandoned)") == 1
    assert caplog.text.count("Inbox orders is active") == 1


@pytest.mark.parametrize("status", ["initialization_failure", "deleting", "paused"])
async def test_a_lease_is_used_whatever_its_inbox_is_like(
    bench: Workbench, triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    messages = bench.service.store.messages
    attributes = {"inbox_attributes": {"status": status, "paused_reason": "subscribe_failed"}}
    monkeypatch.setattr(messages, "lease", lambda *args: {**Messages.lease(messages, *args), **attributes})
    bench.put("a")
    triggerer.start(event_trigger())
    await triggerer.work(30)

    assert triggerer.stored_ids() == ["a"]
    assert bench.states == {}


async def test_while_airflow_stores_nothing_only_a_few_leases_are_held(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put(*(f"m{number}" for number in range(20)))
    triggerer.start(event_trigger(lease_limit=1))
    await held_clock.elapse(200)
    assert bench.service.summary("orders")["counters"]["leases"] == MAX_UNSETTLED_BATCHES

    await triggerer.work(100)
    assert len(triggerer.stored_ids()) == 20
    assert bench.states == {}


async def test_an_inbox_that_is_being_deleted_is_left_for_the_new_one_of_its_name(
    bench: Workbench, triggerer: Triggerer
) -> None:
    triggerer.start(event_trigger())
    await triggerer.work(30)
    being_deleted(bench)
    await triggerer.work(600)
    assert triggerer.stored_ids() == ["new"]


async def test_the_events_of_a_lease_are_closer_than_those_of_two(
    bench: Workbench, triggerer: Triggerer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_workflow.triggers.event_producer.MAX_EVENT_LENGTH", 1)
    bench.put(*"abcd")
    triggerer.start(event_trigger(min_interval=300))
    await triggerer.work(30)
    assert triggerer.stored_ids() == ["a", "b", "c", "d"]
    bench.put("e")
    await triggerer.work(200)
    assert bench.states == {"e": "available"}


async def test_a_slow_service_does_not_keep_a_triggerer_from_ending(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a")
    triggerer.start(event_trigger())
    await held_clock.elapse(5)
    bench.service.fault("hold", operation="release", times=None)
    ending = asyncio.create_task(triggerer.stop_streams())
    await beside(bench.service.wait_until_held)
    assert not ending.done()
    held_clock.advance(CLOSING_SECONDS)
    await asyncio.wait({ending}, timeout=PATIENCE_SECONDS)

    assert ending.done()


async def test_messages_of_a_lease_that_is_answered_after_its_end_are_in_no_event_and_come_again(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a")
    bench.service.fault("hold", operation="lease", when="after")
    triggerer.start(event_trigger(lease_seconds=400))
    leasing = asyncio.create_task(held_clock.elapse(3))
    await beside(bench.service.wait_until_held)
    held_clock.advance(400)
    bench.service.release()
    await leasing
    await triggerer.work(30)
    assert triggerer.stored_ids() == []

    bench.service.store.messages.expire()
    await triggerer.work(100)
    assert triggerer.stored_ids() == ["a"]
    assert bench.states == {}


LEASES = 6
"""Seconds after which a message that was there at the beginning is leased and offered, with some to spare."""
DELAY = 3
"""Seconds from the report of a batch to its acknowledgement or release."""


class Raises(WorkflowInboxEventTrigger):
    """Its filter raises when it has taken a batch."""

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for _ in shared_stream:
            raise RuntimeError("made up")
        yield


class Hesitates(WorkflowInboxEventTrigger):
    """Its filter awaits between taking a batch and yielding its event, for ever."""

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async def slowly() -> AsyncIterator[Any]:
            async for batch in shared_stream:
                await asyncio.Event().wait()
                yield batch

        async for event in super().filter_shared_stream(slowly()):
            yield event


@pytest.mark.parametrize("sibling", [False, True])
async def test_a_filter_that_raises_acknowledges_nothing(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, sibling: bool
) -> None:
    bench.put("a")
    if sibling:
        triggerer.start(event_trigger())
    triggerer.start(Raises("orders", wake_on_events=False))
    await held_clock.elapse(LEASES)
    triggerer.store()
    await held_clock.elapse(DELAY)

    assert triggerer.stored_ids() == (["a"] if sibling else [])
    assert bench.states == {"a": "available"}
    assert bench.service.count("ack") == 0


@pytest.mark.parametrize("sibling", [False, True])
@pytest.mark.parametrize("before", ["it yields", "airflow takes its event"])
async def test_a_trigger_that_is_ended_in_between_acknowledges_nothing(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, sibling: bool, before: str
) -> None:
    bench.put("a")
    if before == "it yields":
        number = triggerer.start(Hesitates("orders", wake_on_events=False))
    else:
        triggerer.log.gate = asyncio.Event()
        number = triggerer.start(event_trigger())
    if sibling:
        triggerer.start(event_trigger(match="id == 'other'"))
    await held_clock.elapse(LEASES)
    assert bench.states == {"a": "leased"}
    await triggerer.end(number)
    await held_clock.settle()
    await held_clock.elapse(DELAY)

    assert triggerer.unstored == []
    assert bench.service.count("ack") == 0
    assert bench.states == {"a": "available"}


async def test_an_event_that_airflow_dropped_as_its_dag_was_paused_acknowledges_nothing(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    # Airflow calls an event stored also where its trigger has no asset any more, and then ends the trigger.
    bench.put("a")
    number = triggerer.start(event_trigger())
    triggerer.start(event_trigger(match="id == 'other'"))
    await held_clock.elapse(LEASES)
    triggerer.store()
    await held_clock.settle()
    await triggerer.end(number)
    await held_clock.elapse(10)

    assert bench.service.count("ack") == 0
    # Only once: on its second delivery, it is left to its lease, as the other one does not select it.
    assert bench.service.count("release") == 1


@pytest.mark.parametrize("sibling", [False, True])
async def test_an_event_that_is_not_stored_in_time_acknowledges_nothing(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, sibling: bool
) -> None:
    bench.put("a")
    triggerer.streams._ack_timeout, triggerer.streams._now = 0.05, lambda: 0.0
    if sibling:
        triggerer.start(event_trigger())
    late = triggerer.start(event_trigger())
    await held_clock.elapse(LEASES)
    for entry in list(triggerer.runner.events):
        if entry.trigger_id == late:
            triggerer.runner.events.remove(entry)
    triggerer.store()
    await held_clock.settle()
    (group,) = triggerer.streams._groups.values()
    group._now = lambda: 1.0
    await asyncio.wait({triggerer.runner.triggers[late]["task"]}, timeout=10)
    await held_clock.settle()
    await held_clock.elapse(DELAY)

    assert bench.service.count("ack") == 0
    assert bench.states == {"a": "available"}


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_triggerer_that_stops_gives_back_what_was_not_stored_or_just_before(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, is_stored: bool
) -> None:
    bench.put("a", "b")
    triggerer.start(event_trigger())
    await held_clock.elapse(LEASES)
    if is_stored:
        triggerer.store()
        await held_clock.settle()
    assert bench.states == {"a": "leased", "b": "leased"}
    await triggerer.stop()

    assert bench.states == {"a": "available", "b": "available"}


async def store_first_events(triggerer: Triggerer) -> None:
    """Let the events of a first lease be stored."""
    await triggerer.clock.elapse(LEASES)
    triggerer.store()
    await triggerer.clock.settle()


async def test_an_acknowledgement_is_sent_some_seconds_after_the_event_is_stored(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock
) -> None:
    bench.put("a", "b")
    triggerer.start(event_trigger())
    await store_first_events(triggerer)
    await held_clock.elapse(DELAY - 1)
    assert bench.service.count("ack") == 0

    await held_clock.elapse(1)
    assert bench.states == {}
    assert bench.service.count("ack") == 1


async def test_an_acknowledgement_is_sent_again_after_a_transient_error(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="ack", status=503, times=3)
    triggerer.start(event_trigger())
    await store_first_events(triggerer)
    counts = []
    for seconds in (DELAY, 5, 10, 20):
        await held_clock.elapse(seconds)
        counts.append(bench.service.count("ack"))

    assert counts == [1, 2, 3, 4]
    assert bench.states == {}
    assert "could not be" not in caplog.text


async def test_the_attempts_end_with_the_lease(
    bench: Workbench, triggerer: Triggerer, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a", "b")
    bench.service.fault("status", operation="ack", status=503, times=None)
    triggerer.start(event_trigger(lease_seconds=400))
    await triggerer.work(300)
    assert "could not be acknowledged" not in caplog.text

    with caplog.at_level(logging.WARNING):
        await triggerer.work(200)
    text = "2 messages are redelivered when the lease expires, neither acknowledged nor released"
    assert caplog.text.count(text) == 1


async def test_after_a_permanent_error_it_is_not_sent_again(
    bench: Workbench, triggerer: Triggerer, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="ack", status=400, code="lease_expired")
    triggerer.start(event_trigger())
    await triggerer.work(60)

    assert bench.service.count("ack") == 1
    assert bench.states == {"a": "leased"}
    assert "neither acknowledged nor released" in caplog.text


async def test_a_release_that_fails_is_left_to_the_end_of_the_lease(
    bench: Workbench, triggerer: Triggerer, held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    bench.put("a")
    bench.service.fault("status", operation="release", status=503)
    watcher = triggerer.start(event_trigger())
    triggerer.start(event_trigger(match="id == 'other'"))
    await store_first_events(triggerer)
    await triggerer.end(watcher)
    await held_clock.elapse(60)

    assert bench.service.count("release") == 1
    assert bench.states == {"a": "leased"}
    assert "neither acknowledged nor released" in caplog.text
