"""Queries of DAG runs: whose runs they find, and what they find at the edges of pages and clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import update

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import CLOCK_SKEW, Selection
from tests.unit.cli.burying import Burying
from tests.unit.cli.database import Database

RUN_ID = "workflow__a"
CONF = {"inbox_id": "i", "message": {"id": "a"}}


@pytest.mark.parametrize(
    ("triggered_by", "user", "is_ours"),
    [
        ("OPERATOR", None, True),
        ("OPERATOR", "bob", True),  # from Airflow 3.2.2 on: bob started the run whose task started this one
        ("CLI", None, True),
        ("CLI", "bob", False),  # airflow dags trigger
        ("REST_API", "bob", False),
        ("UI", "bob", False),
        ("ASSET", None, False),
    ],
)
def test_only_runs_that_the_provider_started_are_found(
    database: Database, triggered_by: str, user: str | None, is_ours: bool
) -> None:
    database.add_dag("handle")
    airflow_internals.create_dag_run("handle", RUN_ID, CONF, None, triggered_by=triggered_by, user=user)
    selection = Selection("workflow__")

    assert [
        bool(list(dag_runs.pages(selection, (), size=1))),
        bool(dag_runs.named(selection, ("message_id",), [RUN_ID])),
        bool(dag_runs.runs_of({RUN_ID: "i"}, ["handle"])),
    ] == [is_ours] * 3


def test_a_run_of_another_inbox_with_the_same_id_is_not_found(database: Database) -> None:
    database.add_dag("handle")
    airflow_internals.create_dag_run("handle", RUN_ID, CONF, None)

    assert dag_runs.runs_of({RUN_ID: "another"}, ["handle"]) == {}
    assert list(dag_runs.runs_of({RUN_ID: "i"}, ["handle"])) == [RUN_ID]


@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_hold_each_run_once_even_if_all_started_at_the_same_moment(
    buried: Burying, newest_first: bool
) -> None:
    run_ids = [buried.bury(f"m{number}") for number in range(7)]
    with create_session() as session:
        session.execute(update(DagRun).values(run_after=datetime(2026, 1, 1, tzinfo=UTC)))

    pages = dag_runs.pages(Selection("workflow__"), (), size=3, newest_first=newest_first)

    expected = list(reversed(run_ids)) if newest_first else run_ids
    assert [run.run_id for page in pages for run in page] == expected


def test_a_run_is_found_although_the_clock_of_its_machine_is_slow(database: Database) -> None:
    database.add_dag("handle")
    airflow_internals.create_dag_run("handle", RUN_ID, CONF, None)
    started = datetime.now(UTC)

    def found(later: timedelta) -> bool:
        return bool(dag_runs.runs_of({RUN_ID: "i"}, [], since=started + later))

    assert found(timedelta(minutes=30))
    assert not found(CLOCK_SKEW + timedelta(minutes=1))
