"""An event of an inbox's asset is recorded where a DAG would run for it, and no run of it waits already."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from airflow.models.asset import AssetDagRunQueue, AssetEvent
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG, Asset, task
from airflow.utils.session import create_session
from airflow.utils.types import DagRunType
from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql

from airflow_provider_workflow.assets import create_asset, schedule_of
from airflow_provider_workflow.plugin import asset_events
from airflow_provider_workflow.plugin.asset_events import Outcome, record_event
from tests.unit.cli.database import Database

ORDERS = create_asset(inbox="orders")
EXTRA = {"from_notification": True}


def deploy(database: Database, schedule: Any, dag_id: str = "dispatch", **columns: Any) -> None:
    with DAG(dag_id, schedule=schedule, start_date=datetime(2025, 1, 1)) as dag:
        task(lambda: None, task_id="t")()
    database.deploy(dag, **columns)


def record() -> Outcome:
    return record_event(ORDERS.uri, EXTRA)


def events() -> list[dict[str, Any]]:
    with create_session() as session:
        return [each.extra for each in session.scalars(select(AssetEvent).order_by(AssetEvent.id))]


def queued_for() -> list[str]:
    """The DAGs that the scheduler is to start."""
    with create_session() as session:
        return list(session.scalars(select(AssetDagRunQueue.target_dag_id)))


def create_run(dag_id: str = "dispatch", state: str = "queued") -> None:
    """Make a run of all queued events of a DAG, as the scheduler does."""
    now = datetime.now().astimezone()
    with create_session() as session:
        session.execute(delete(AssetDagRunQueue).where(AssetDagRunQueue.target_dag_id == dag_id))
        run = DagRun(dag_id=dag_id, run_id=f"r{now.timestamp()}", run_type=DagRunType.ASSET_TRIGGERED)
        run.state, run.run_after = state, now
        run.consumed_asset_events.extend(session.scalars(select(AssetEvent)))
        session.add(run)


def let_runs_be(state: str) -> None:
    with create_session() as session:
        for run in session.scalars(select(DagRun)):
            run.state = state


def test_an_event_is_recorded_and_its_dag_is_queued(database: Database) -> None:
    deploy(database, schedule_of(ORDERS))

    assert record() is Outcome.RECORDED
    assert events() == [EXTRA]
    assert queued_for() == ["dispatch"]


def test_while_an_event_waits_for_its_run_nothing_is_recorded(database: Database) -> None:
    deploy(database, [ORDERS])
    record()

    assert [record() for _ in range(3)] == [Outcome.WAITING] * 3
    assert len(events()) == 1


def test_while_a_run_is_queued_nothing_is_recorded_and_once_it_runs_its_successor_is_due(
    database: Database,
) -> None:
    deploy(database, [ORDERS])
    record()
    create_run()

    assert record() is Outcome.WAITING
    let_runs_be("running")
    assert record() is Outcome.RECORDED
    assert queued_for() == ["dispatch"]


def test_a_queued_run_of_another_inbox_does_not_count(database: Database) -> None:
    other = create_asset(inbox="invoices")
    deploy(database, ORDERS | other)
    record_event(other.uri, EXTRA)
    create_run()

    assert record() is Outcome.RECORDED


def test_of_two_dags_each_gets_its_run(database: Database) -> None:
    deploy(database, [ORDERS], "first")
    deploy(database, [Asset.ref(uri=ORDERS.uri)], "second")
    record()
    create_run("first", "running")

    assert record() is Outcome.RECORDED
    assert set(queued_for()) == {"first", "second"}


def test_a_paused_dag_is_said_to_be_paused_and_other_dags_run_all_the_same(database: Database) -> None:
    deploy(database, [ORDERS], is_paused=True)
    assert record() is Outcome.PAUSED
    assert events() == []

    deploy(database, [ORDERS], "second")
    assert record() is Outcome.RECORDED
    assert queued_for() == ["second"]


def test_without_a_dag_nothing_is_recorded(database: Database) -> None:
    assert record() is Outcome.NO_DAG

    deploy(database, [ORDERS], is_stale=True)
    assert record() is Outcome.NO_DAG
    assert events() == []


def test_api_servers_that_are_notified_at_once_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In databases that can lock a row; the lock lets others insert events of the asset."""
    statements: list[str] = []

    class Session:
        def __enter__(self) -> Session:
            return self

        def __exit__(self, *_: object) -> None: ...

        def scalar(self, statement: Any) -> None:
            statements.append(str(statement.compile(dialect=postgresql.dialect())))

    monkeypatch.setattr(asset_events, "database_session", Session)

    assert record() is Outcome.NO_DAG
    assert statements[0].endswith("FOR NO KEY UPDATE OF asset")
