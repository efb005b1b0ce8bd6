"""What still rests when the producer closes is flushed, and what nobody wants any more is released."""

from __future__ import annotations

import pytest

from tests.unit.fake_clock import FakeClock

pytest.importorskip("airflow.triggers.shared_stream", reason="Airflow acknowledges asset events since 3.3")

from airflow_provider_workflow.triggers.event_producer import ACKNOWLEDGE_DELAY_SECONDS
from tests.unit.triggers.acknowledgers import (
    PASSING,
    Client,
    batch,
    finish,
    worker,
)


async def test_closing_acknowledges_what_has_rested_and_releases_the_rest(
    held_clock: FakeClock,
) -> None:
    client = Client(held_clock, PASSING[0])
    acknowledger = worker(client)
    acknowledger.acknowledge(batch(held_clock, "a")[0], ["a"])
    await held_clock.elapse(ACKNOWLEDGE_DELAY_SECONDS + 1)
    acknowledger.acknowledge(batch(held_clock, "b")[0], ["b"])
    acknowledger.release(batch(held_clock, "c")[0], ["c"])
    await held_clock.settle()
    await finish(acknowledger)

    assert sorted((name, ids) for _, name, ids in client.sent[1:]) == [
        ("acknowledge", ["a"]),
        ("release", ["b"]),
        ("release", ["c"]),
    ]


async def test_closing_releases_what_was_for_a_watcher_that_had_left(held_clock: FakeClock) -> None:
    client = Client(held_clock)
    acknowledger = worker(client)
    made, watcher = batch(held_clock, "a")
    acknowledger.acknowledge(made, ["a"])
    watcher.has_ended = True
    await finish(acknowledger)

    assert [name for _, name, _ in client.sent] == ["release"]


async def test_a_watcher_that_leaves_while_the_triggerer_ends_changes_nothing(held_clock: FakeClock) -> None:
    client = Client(held_clock, PASSING[0])
    acknowledger = worker(client)
    made, watcher = batch(held_clock, "a")
    acknowledger.acknowledge(made, ["a"])
    await held_clock.elapse(ACKNOWLEDGE_DELAY_SECONDS)
    acknowledger.close()
    watcher.has_ended = True
    await acknowledger.finish()

    assert [name for _, name, _ in client.sent] == ["acknowledge", "acknowledge"]


async def test_closing_tries_once(held_clock: FakeClock) -> None:
    client = Client(held_clock, *[PASSING[0]] * 10)
    acknowledger = worker(client)
    acknowledger.acknowledge(batch(held_clock, "a")[0], ["a"])
    await finish(acknowledger)

    assert len(client.sent) == 1


async def test_a_finish_that_was_cut_short_is_taken_up_again(held_clock: FakeClock) -> None:
    client = Client(held_clock)
    acknowledger = worker(client)
    acknowledger.acknowledge(batch(held_clock, "a")[0], ["a"])
    acknowledger.close()
    await acknowledger.finish()
    await acknowledger.finish()

    assert len(client.sent) == 1
