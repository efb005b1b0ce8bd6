"""Acknowledgements rest, and are tried on through faults."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_workflow.client.errors import (
    LeaseExpiredError,
    TransportError,
)
from tests.unit.fake_clock import FakeClock

pytest.importorskip("airflow.triggers.shared_stream", reason="Airflow acknowledges asset events since 3.3")

from airflow_provider_workflow.triggers.event_producer import ACKNOWLEDGE_DELAY_SECONDS, PAUSES, Acknowledger
from tests.unit.triggers.acknowledgers import (
    FINAL,
    LEASE_SECONDS,
    PASSING,
    TO_BE_FIXED,
    Client,
    batch,
    finish,
    worker,
)


async def test_an_acknowledgement_rests_and_a_release_does_not(held_clock: FakeClock) -> None:
    client = Client(held_clock)
    acknowledger = worker(client)
    made, _ = batch(held_clock, "a", "b", "c")
    acknowledger.release(made, ["c"])
    acknowledger.acknowledge(made, ["a", "b"])
    acknowledger.acknowledge(made, [])
    await held_clock.elapse(60)

    assert client.sent == [(0, "release", ["c"]), (ACKNOWLEDGE_DELAY_SECONDS, "acknowledge", ["a", "b"])]
    await finish(acknowledger)
    assert len(client.sent) == 2


async def test_what_is_acknowledged_later_is_acknowledged_too(held_clock: FakeClock) -> None:
    client = Client(held_clock)
    acknowledger = worker(client)
    acknowledger.acknowledge(batch(held_clock, "a")[0], ["a"])
    await held_clock.elapse(60)
    acknowledger.acknowledge(batch(held_clock, "b")[0], ["b"])
    await held_clock.elapse(60)

    assert [ids for _, _, ids in client.sent] == [["a"], ["b"]]
    await finish(acknowledger)


async def test_where_a_watcher_leaves_meanwhile_its_messages_are_released(held_clock: FakeClock) -> None:
    client = Client(held_clock)
    acknowledger = worker(client)
    made, watcher = batch(held_clock, "a")
    acknowledger.acknowledge(made, ["a"])
    await held_clock.elapse(1)
    watcher.has_ended = True
    await held_clock.elapse(60)

    assert [name for _, name, _ in client.sent] == ["release"]
    await finish(acknowledger)


@pytest.mark.parametrize("fault", [*PASSING, TO_BE_FIXED, RuntimeError("made up")])
async def test_an_acknowledgement_that_fails_is_tried_on_and_spoken_of_once(
    held_clock: FakeClock, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(held_clock, *[fault] * 7)
    acknowledger = worker(client)
    acknowledger.acknowledge(batch(held_clock, "a")[0], ["a"])
    with caplog.at_level(logging.INFO):
        await held_clock.elapse(LEASE_SECONDS)

    moments = [moment for moment, _, _ in client.sent]
    pauses = [later - earlier for earlier, later in zip(moments, moments[1:], strict=False)]  # noqa: RUF007
    assert pauses == [*PAUSES, 60, 60]
    assert len(caplog.records) == 1
    assert "acknowledgements fail; retrying" in caplog.text
    await finish(acknowledger)


async def test_one_that_fails_holds_up_no_other(
    held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(held_clock)
    client.faults = {"a", "b"}
    done: list[int] = []
    acknowledger = Acknowledger("orders", lambda: client, lambda: done.append(1))  # type: ignore[arg-type, return-value]
    for each in "abc":
        acknowledger.acknowledge(batch(held_clock, each)[0], [each])
    assert acknowledger.backlog == 3
    await held_clock.elapse(ACKNOWLEDGE_DELAY_SECONDS)

    assert [ids for _, _, ids in client.sent] == [["a"], ["b"], ["c"]]
    assert (acknowledger.backlog, done) == (2, [1])
    assert caplog.text.count("acknowledgements fail") == 1
    client.faults = set()
    await held_clock.elapse(PAUSES[0])
    assert acknowledger.backlog == 0
    await finish(acknowledger)


async def test_it_is_given_up_when_the_lease_ends(
    held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(held_clock, *[PASSING[0]] * 100)
    acknowledger = worker(client)
    acknowledger.acknowledge(batch(held_clock, "a", "b")[0], ["a", "b"])
    with caplog.at_level(logging.INFO):
        await held_clock.elapse(2 * LEASE_SECONDS)

    assert client.sent[-1][0] < LEASE_SECONDS
    assert [each.getMessage() for each in caplog.records][-1] == (
        "Inbox orders: 2 messages are redelivered when their lease expires,"
        " as they could not be acknowledged: 503"
    )
    await finish(acknowledger)


@pytest.mark.parametrize("fault", FINAL)
async def test_what_no_attempt_can_change_is_not_tried_on(held_clock: FakeClock, fault: Exception) -> None:
    client = Client(held_clock, fault)
    acknowledger = worker(client)
    acknowledger.acknowledge(batch(held_clock, "a")[0], ["a"])
    acknowledger.acknowledge(batch(held_clock, "b")[0], ["b"])
    await held_clock.elapse(60)

    assert [ids for _, _, ids in client.sent] == [["a"], ["b"]]
    await finish(acknowledger)


async def test_a_release_that_fails_is_left_to_the_end_of_the_lease(
    held_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(held_clock, PASSING[0])
    acknowledger = worker(client)
    acknowledger.release(batch(held_clock, "a")[0], ["a"])
    await held_clock.elapse(60)

    assert len(client.sent) == 1
    assert "could not be released" in caplog.text
    await finish(acknowledger)


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
    acknowledger = worker(Client(held_clock, outcome))
    acknowledger.acknowledge(batch(held_clock, "a", "b")[0], ["a", "b"])
    with caplog.at_level(logging.INFO):
        await held_clock.elapse(60)

    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", f"Inbox orders: {said}")
    ]
    await finish(acknowledger)


async def test_without_a_connection_it_waits_for_one(held_clock: FakeClock) -> None:
    client = Client(held_clock)
    connected: list[Client] = []

    def of_the_moment() -> Any:
        if not connected:
            raise TransportError("none yet", sent=False)
        return connected[0]

    acknowledger = Acknowledger("orders", of_the_moment)
    acknowledger.acknowledge(batch(held_clock, "a")[0], ["a"])
    await held_clock.elapse(ACKNOWLEDGE_DELAY_SECONDS)
    connected.append(client)
    await held_clock.elapse(PAUSES[0])

    assert len(client.sent) == 1
    await finish(acknowledger)
