"""Acknowledgements rest, and are tried on through faults."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_workflow.client.errors import LeaseExpiredError
from tests.unit.fake_clock import FakeClock

pytest.importorskip("airflow.triggers.shared_stream", reason="Airflow acknowledges asset events since 3.3")

from airflow_provider_workflow.triggers.event_producer import ACKNOWLEDGE_DELAY_SECONDS, PAUSES
from tests.unit.triggers.acknowledgers import (
    FINAL,
    LEASE_SECONDS,
    PASSING,
    TO_BE_FIXED,
    Client,
    batch,
    close,
    producer,
    report,
)


async def test_an_acknowledgement_rests_and_a_release_does_not(held_clock: FakeClock) -> None:
    client = Client(held_clock)
    inbox = producer(client)
    await report(inbox, batch(held_clock, "a", "b"))
    await report(inbox, batch(held_clock, "c"), stored=False)
    await held_clock.elapse(60)

    assert client.sent == [(0, "release", ["c"]), (ACKNOWLEDGE_DELAY_SECONDS, "acknowledge", ["a", "b"])]
    assert inbox.held_batches == set()
    await close(inbox)
    assert len(client.sent) == 2


async def test_what_is_acknowledged_later_is_acknowledged_too(held_clock: FakeClock) -> None:
    client = Client(held_clock)
    inbox = producer(client)
    await report(inbox, batch(held_clock, "a"))
    await held_clock.elapse(60)
    await report(inbox, batch(held_clock, "b"))
    await held_clock.elapse(60)

    assert [ids for _, _, ids in client.sent] == [["a"], ["b"]]
    await close(inbox)


async def test_where_a_watcher_leaves_meanwhile_its_messages_are_released(held_clock: FakeClock) -> None:
    client = Client(held_clock)
    inbox = producer(client)
    made = batch(held_clock, "a")
    await report(inbox, made)
    await held_clock.elapse(1)
    made.selections[0].ended.set()
    await held_clock.elapse(60)

    assert [name for _, name, _ in client.sent] == ["release"]
    await close(inbox)


@pytest.mark.parametrize("fault", [*PASSING, TO_BE_FIXED, RuntimeError("made up")])
async def test_an_acknowledgement_that_fails_is_tried_on_and_spoken_of_once(
    held_clock: FakeClock, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(held_clock, *[fault] * 7)
    inbox = producer(client)
    await report(inbox, batch(held_clock, "a"))
    with caplog.at_level(logging.INFO):
        await held_clock.elapse(LEASE_SECONDS)

    moments = [moment for moment, _, _ in client.sent]
    pauses = [later - earlier for earlier, later in zip(moments, moments[1:], strict=False)]  # noqa: RUF007
    assert pauses == [*PAUSES, 60, 60]
    assert len(caplog.records) == 1
    assert "acknowledgements fail; retrying" in caplog.text
    await close(inbox)


async def test_one_that_fails_holds_up_no_other(
    held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(held_clock)
    client.faults = {"a", "b"}
    inbox = producer(client)
    for each in "abc":
        await report(inbox, batch(held_clock, each))
    await held_clock.elapse(ACKNOWLEDGE_DELAY_SECONDS)

    assert [ids for _, _, ids in client.sent] == [["a"], ["b"], ["c"]]
    assert len(inbox.held_batches) == 2
    assert caplog.text.count("acknowledgements fail") == 1
    client.faults = set()
    await held_clock.elapse(PAUSES[0])
    assert inbox.held_batches == set()
    await close(inbox)


async def test_it_is_given_up_when_the_lease_ends(
    held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(held_clock, *[PASSING[0]] * 100)
    inbox = producer(client)
    await report(inbox, batch(held_clock, "a", "b"))
    with caplog.at_level(logging.INFO):
        await held_clock.elapse(2 * LEASE_SECONDS)

    assert client.sent[-1][0] < LEASE_SECONDS
    assert [each.getMessage() for each in caplog.records][-1] == (
        "Inbox orders: 2 messages are redelivered when their lease expires,"
        " as they could not be acknowledged: 503"
    )
    await close(inbox)


@pytest.mark.parametrize("fault", FINAL)
async def test_what_no_attempt_can_change_is_not_tried_on(held_clock: FakeClock, fault: Exception) -> None:
    client = Client(held_clock, fault)
    inbox = producer(client)
    await report(inbox, batch(held_clock, "a"))
    await report(inbox, batch(held_clock, "b"))
    await held_clock.elapse(60)

    assert [ids for _, _, ids in client.sent] == [["a"], ["b"]]
    await close(inbox)


async def test_a_release_that_fails_is_left_to_the_end_of_the_lease(
    held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(held_clock, PASSING[0])
    inbox = producer(client)
    await report(inbox, batch(held_clock, "a"), stored=False)
    await held_clock.elapse(60)

    assert len(client.sent) == 1
    assert "could not be released" in caplog.text
    await close(inbox)


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (1, "1 of 2 messages were acknowledged; the others are redelivered"),
        (LeaseExpiredError("expired", status=400), "a lease had expired; 2 messages of it are redelivered"),
    ],
)
async def test_an_ended_lease_is_a_line_in_the_log(
    held_clock: FakeClock, outcome: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = producer(Client(held_clock, outcome))
    await report(inbox, batch(held_clock, "a", "b"))
    with caplog.at_level(logging.INFO):
        await held_clock.elapse(60)

    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", f"Inbox orders: {said}")
    ]
    await close(inbox)


async def test_without_a_connection_it_waits_for_one(held_clock: FakeClock) -> None:
    client = Client(held_clock)
    inbox = producer(None)
    await report(inbox, batch(held_clock, "a"))
    await held_clock.elapse(ACKNOWLEDGE_DELAY_SECONDS)
    inbox.client = client
    await held_clock.elapse(PAUSES[0])

    assert len(client.sent) == 1
    await close(inbox)
