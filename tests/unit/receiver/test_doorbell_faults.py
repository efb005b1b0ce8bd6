"""After a ring a run that starts later exists, whatever Airflow does in between."""

from __future__ import annotations

import asyncio
import logging

import pytest

from airflow_provider_workflow.receiver.airflow_rest import names_of
from airflow_provider_workflow.receiver.doorbell import LONGEST_BACKOFF_SECONDS, PAUSE_SECONDS
from tests.unit.receiver.airflow import FakeAirflow
from tests.unit.receiver.conftest import Connect, Hang, Pauses


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_when_airflow_is_back_a_single_run_is_started(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    airflow.fault = (503, "upgrading")
    bell = hang()
    bell.ring()
    waited = []
    for _ in range(9):
        pause = await pauses.next()
        waited.append(pause.seconds)
        bell.ring()
        pause.end()
    last = await pauses.next()
    airflow.fault = None
    last.end()
    assert (await pauses.next()).seconds == PAUSE_SECONDS
    assert len(airflow.runs) == 1
    assert all(0.5 <= seconds / 2**n <= 1 for n, seconds in enumerate(waited[:6]))
    assert max(waited) <= LONGEST_BACKOFF_SECONDS
    (warning,) = warnings(caplog)
    assert warning == (
        "Inbox orders: no run of dispatch could be started, trying until one is:"
        " Airflow answered 503 ('upgrading')"
    )


async def test_an_airflow_that_is_not_there_is_waited_for(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    bell, port = hang(), airflow.server.port
    await airflow.server.close()
    bell.ring()
    (await pauses.next()).end()
    pause = await pauses.next()
    again = FakeAirflow(port)
    await again.server.start_server()
    pause.end()
    run = await again.next_run()
    assert run.run_id == names_of("orders")[0] + "1"
    await again.server.close()
    assert len(warnings(caplog)) == 1


async def test_a_run_whose_start_was_not_answered_is_found_again(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses
) -> None:
    airflow.cut = True
    hang().ring()
    backoff = await pauses.next()
    airflow.runs[0].state = "running"
    backoff.end()
    assert (await pauses.next()).seconds == PAUSE_SECONDS
    assert len(airflow.runs) == 1


async def test_a_ring_while_a_start_is_tried_again_is_not_lost(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses
) -> None:
    """The run may have found the inbox empty between its start and the ring."""
    airflow.cut = True
    bell = hang()
    bell.ring()
    backoff = await pauses.next()
    airflow.runs[0].state = "running"
    bell.ring()
    backoff.end()
    (await pauses.next()).end()
    await pauses.next()
    assert [run.state for run in airflow.runs] == ["running", "queued"]


async def test_two_receivers_at_the_same_time_start_one_run(
    airflow: FakeAirflow, hang: Hang, connect: Connect, pauses: Pauses
) -> None:
    both = [hang(airflow=connect()) for _ in range(2)]
    airflow.open.clear()
    for bell in both:
        bell.ring()
    for _ in both:
        await asyncio.wait_for(airflow.looked.get(), 10)
    airflow.open.set()
    assert {(await pauses.next()).seconds, (await pauses.next()).seconds} == {PAUSE_SECONDS}
    assert len(airflow.runs) == 1


async def test_each_cause_is_told_once(
    airflow: FakeAirflow, hang: Hang, pauses: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    airflow.fault = (503, "upgrading")
    hang().ring()
    (await pauses.next()).end()
    pause = await pauses.next()
    airflow.fault = (404, "no such DAG")
    pause.end()
    (await pauses.next()).end()
    await pauses.next()
    assert len(warnings(caplog)) == 2
    assert "deploy the DAG 'dispatch'" in warnings(caplog)[1]


async def test_an_inbox_whose_dag_is_missing_does_not_hold_up_another(
    airflow: FakeAirflow, hang: Hang, connect: Connect, pauses: Pauses
) -> None:
    airflow.fault = (404, "not found")
    hang("orders", "missing").ring()
    await pauses.next()
    airflow.fault = None
    hang("invoices").ring()
    await pauses.next()
    assert [run.conf for run in airflow.runs] == [{"inbox": "invoices"}]


async def test_a_fault_of_its_own_makes_no_inbox_deaf_and_is_told_without_its_text(
    airflow: FakeAirflow,
    hang: Hang,
    connect: Connect,
    pauses: Pauses,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rest, faults = connect(), [KeyError("a-secret")]
    look = rest.next_run_id

    async def faulty(dag_id: str, inbox: str) -> str | None:
        if faults:
            raise faults.pop()
        return await look(dag_id, inbox)

    monkeypatch.setattr(rest, "next_run_id", faulty)
    hang(airflow=rest).ring()
    (await pauses.next()).end()
    assert (await airflow.next_run()).conf == {"inbox": "orders"}
    assert "KeyError in line" in warnings(caplog)[0]
    assert "a-secret" not in caplog.text
