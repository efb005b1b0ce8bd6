"""What still rests when the producer closes is flushed, and what nobody wants any more is released."""

from __future__ import annotations

import pytest

from airflow_provider_workflow.triggers.acknowledging import REST_SECONDS
from tests.unit.triggers.acknowledgers import (
    PASSING,
    Client,
    finish,
    ticket,
    worker,
)
from tests.unit.triggers.clockwork import Clockwork

pytestmark = pytest.mark.since(3, 3, "the acknowledging of asset events")


async def test_closing_flushes_what_still_rests_or_waits_for_another_attempt(clockwork: Clockwork) -> None:
    client = Client(clockwork, PASSING[0])
    acknowledger = worker(client)
    acknowledger.acknowledge(ticket(clockwork, "a")[0], ["a"])
    await clockwork.advance(REST_SECONDS + 1)
    acknowledger.acknowledge(ticket(clockwork, "b")[0], ["b"])
    acknowledger.release(ticket(clockwork, "c")[0], ["c"])
    await clockwork.settle()
    await finish(acknowledger)

    assert sorted((name, ids) for _, name, ids in client.sent[1:]) == [
        ("acknowledge", ["a"]),
        ("acknowledge", ["b"]),
        ("release", ["c"]),
    ]


async def test_closing_releases_what_rests_without_a_proof_that_airflow_was_at_work(
    clockwork: Clockwork,
) -> None:
    client = Client(clockwork)
    acknowledger = worker(client)
    acknowledger.acknowledge(ticket(clockwork, "a", proven=False)[0], ["a"])
    await clockwork.settle()
    await finish(acknowledger)

    assert [name for _, name, _ in client.sent] == ["release"]


async def test_closing_releases_what_was_for_a_watcher_that_had_left(clockwork: Clockwork) -> None:
    client = Client(clockwork)
    acknowledger = worker(client)
    made, watcher = ticket(clockwork, "a")
    acknowledger.acknowledge(made, ["a"])
    watcher.gone = True
    await finish(acknowledger)

    assert [name for _, name, _ in client.sent] == ["release"]


async def test_a_watcher_that_leaves_while_the_triggerer_ends_changes_nothing(clockwork: Clockwork) -> None:
    client = Client(clockwork)
    acknowledger = worker(client)
    made, watcher = ticket(clockwork, "a")
    acknowledger.acknowledge(made, ["a"])
    acknowledger.close()
    watcher.gone = True
    await acknowledger.finish()

    assert [name for _, name, _ in client.sent] == ["acknowledge"]


async def test_closing_tries_once(clockwork: Clockwork) -> None:
    client = Client(clockwork, *[PASSING[0]] * 10)
    acknowledger = worker(client)
    acknowledger.acknowledge(ticket(clockwork, "a")[0], ["a"])
    await finish(acknowledger)

    assert len(client.sent) == 1


async def test_a_finish_that_was_cut_short_is_taken_up_again(clockwork: Clockwork) -> None:
    client = Client(clockwork)
    acknowledger = worker(client)
    acknowledger.acknowledge(ticket(clockwork, "a")[0], ["a"])
    acknowledger.close()
    await acknowledger.finish()
    await acknowledger.finish()

    assert len(client.sent) == 1
