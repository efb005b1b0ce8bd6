"""After a ring, a run that starts later exists; and never more than one waits."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_workflow.receiver.airflow_rest import names_of
from airflow_provider_workflow.receiver.doorbell import PAUSE_SECONDS
from tests.unit.receiver.airflow import FakeAirflow
from tests.unit.receiver.conftest import Hang, Pauses

ORDERS = names_of("orders")[0]


async def test_a_ring_starts_a_run_that_knows_its_inbox(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hang().ring()
    assert (await pauses.next()).seconds == PAUSE_SECONDS
    (run,) = airflow.runs
    assert (run.dag_id, run.run_id, run.conf) == ("dispatch", f"{ORDERS}1", {"inbox": "orders"})
    (line,) = [each for each in caplog.records if each.name.endswith("doorbell")]
    assert (line.levelname, line.getMessage()) == (
        "INFO",
        f"Inbox orders: started run {ORDERS}1 of dispatch",
    )


async def test_nothing_is_asked_of_airflow_until_somebody_rings(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses
) -> None:
    hang("orders")
    hang("invoices").ring()
    await pauses.next()
    assert airflow.looks == 1


async def test_a_hundred_rings_start_one_run(airflow: FakeAirflow, hang: Hang, pauses: Pauses) -> None:
    bell = hang()
    for _ in range(50):
        bell.ring()
    pause = await pauses.next()
    for _ in range(50):
        bell.ring()
    pause.end()
    await pauses.next()
    assert [run.state for run in airflow.runs] == ["queued"]
    assert airflow.looks == 2


async def test_a_ring_while_a_run_is_at_work_starts_its_successor(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses
) -> None:
    bell = hang()
    bell.ring()
    pause = await pauses.next()
    airflow.runs[0].state = "running"
    bell.ring()
    pause.end()
    pause = await pauses.next()
    assert [run.state for run in airflow.runs] == ["running", "queued"]
    bell.ring()
    pause.end()
    await pauses.next()
    assert [run.run_id for run in airflow.runs] == [f"{ORDERS}1", f"{ORDERS}2"]


async def test_a_ring_while_airflow_is_asked_is_asked_about_once_more(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses
) -> None:
    """The run that the first ring found queued may be at work by the time of the second."""
    airflow.add(f"{ORDERS}7", "queued")
    bell = hang()
    bell.ring()
    first = await pauses.next()
    bell.ring()
    airflow.runs[0].state = "running"
    first.end()
    await pauses.next()
    assert [run.run_id for run in airflow.runs] == [f"{ORDERS}7", f"{ORDERS}8"]


async def test_an_old_run_that_was_cleared_waits_too(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses
) -> None:
    airflow.add(f"{ORDERS}1", "queued")
    airflow.add(f"{ORDERS}2", "success")
    hang().ring()
    await pauses.next()
    assert len(airflow.runs) == 2


async def test_runs_of_others_do_not_count(airflow: FakeAirflow, hang: Hang, pauses: Pauses) -> None:
    """A scheduled run need not be for this inbox, and one of another DAG does something else."""
    airflow.add("scheduled__2025-01-01", "queued")
    airflow.add("manual__2025-01-01", "queued", inbox="orders")
    airflow.add(f"{ORDERS}1", "queued", dag_id="another")
    airflow.add(f"{ORDERS}of_somebody", "queued")
    hang().ring()
    await pauses.next()
    assert airflow.runs[-1].run_id == f"{ORDERS}1"
    assert len(airflow.runs) == 5


@pytest.mark.parametrize(
    ("inbox", "other"),
    [("orders", "Orders"), ("a b", "a.b"), ("x" * 100, "x" * 99)],
)
async def test_inboxes_with_like_names_have_runs_of_their_own(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses, inbox: str, other: str
) -> None:
    for _ in range(30):
        airflow.add(f"{names_of(other)[0]}1", "queued")
    for number in (1, 2):
        hang(inbox).ring()
        await pauses.next()
        run = airflow.runs[-1]
        assert run.run_id.endswith(f"__{number}")
        assert run.conf == {"inbox": inbox}
        run.state = "running"


@pytest.mark.parametrize("inbox", ["Grüße, 世界 \U0001f600", "../..", "é" * 100])
async def test_any_name_of_an_inbox_makes_an_id_that_airflow_takes(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses, inbox: str
) -> None:
    hang(inbox).ring()
    await pauses.next()
    assert airflow.runs[0].conf == {"inbox": inbox}
    assert ".." not in airflow.runs[0].run_id
