"""When the producer closes, what has rested is acknowledged, and the rest is released."""

from __future__ import annotations

import pytest

from tests.unit.fake_clock import FakeClock

pytest.importorskip("airflow.triggers.shared_stream", reason="Airflow acknowledges asset events since 3.3")

from airflow_provider_workflow.triggers.event_producer import ACKNOWLEDGE_DELAY_SECONDS
from tests.unit.triggers.acknowledgers import PASSING, Client, batch, close, producer, report


async def test_closing_acknowledges_what_has_rested_and_releases_the_rest(held_clock: FakeClock) -> None:
    client = Client(held_clock, PASSING[0])
    inbox = producer(client)
    await report(inbox, batch(held_clock, "a"))
    await held_clock.elapse(ACKNOWLEDGE_DELAY_SECONDS + 1)
    await report(inbox, batch(held_clock, "b"))
    inbox.held_batches.add(batch(held_clock, "c"))
    await close(inbox)

    assert sorted((name, ids) for _, name, ids in client.sent[1:]) == [
        ("acknowledge", ["a"]),
        ("release", ["b"]),
        ("release", ["c"]),
    ]


async def test_closing_acknowledges_nothing_of_a_batch_that_was_not_stored(held_clock: FakeClock) -> None:
    client = Client(held_clock, PASSING[0])
    inbox = producer(client)
    made = batch(held_clock, "a", "b")
    made.selections[0].ids = frozenset("a")
    made.selections.append(type(made.selections[0])(frozenset("b"), {}, made.selections[0].ended))
    await report(inbox, made)
    made.acknowledge_from = 0.0  # the release of the other message has taken until now
    await close(inbox)

    assert sorted((name, ids) for _, name, ids in client.sent) == [("acknowledge", ["a"]), ("release", ["b"])]


async def test_closing_releases_what_was_for_a_watcher_that_had_left(held_clock: FakeClock) -> None:
    client = Client(held_clock, PASSING[0])
    inbox = producer(client)
    made = batch(held_clock, "a")
    await report(inbox, made)
    await held_clock.elapse(ACKNOWLEDGE_DELAY_SECONDS)
    made.selections[0].ended.set()
    await close(inbox)

    assert [name for _, name, _ in client.sent] == ["acknowledge", "release"]


async def test_a_watcher_that_leaves_while_the_triggerer_ends_changes_nothing(held_clock: FakeClock) -> None:
    client = Client(held_clock, PASSING[0])
    inbox = producer(client)
    made = batch(held_clock, "a")
    await report(inbox, made)
    await held_clock.elapse(ACKNOWLEDGE_DELAY_SECONDS)
    await inbox.aclose()
    made.selections[0].ended.set()
    await held_clock.settle()

    assert [name for _, name, _ in client.sent] == ["acknowledge", "acknowledge"]


async def test_closing_tries_once(held_clock: FakeClock) -> None:
    client = Client(held_clock, *[PASSING[0]] * 10)
    inbox = producer(client)
    await report(inbox, batch(held_clock, "a"))
    await close(inbox)

    assert len(client.sent) == 1


async def test_a_batch_that_no_watcher_was_there_for_is_released_and_counts_for_no_limit(
    held_clock: FakeClock,
) -> None:
    from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome

    client = Client(held_clock)
    inbox = producer(client)
    made = batch(held_clock, "a")
    made.is_offered = True
    inbox.held_batches.add(made)
    await inbox.advance([AdvanceItem(made, AdvanceOutcome(acked=0, failed=0))])
    assert not made.is_offered
    await close(inbox)

    assert [name for _, name, _ in client.sent] == ["release"]
