"""Confs that are too large for a list to read, in each database that this machine has."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from airflow import settings
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.utils.db import synchronize_log_template
from sqlalchemy import create_engine

from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import MAX_CONF_BYTES, DatabaseRuns, Selection
from airflow_provider_workflow.dispatch.runs import RUN_ID_PREFIX, run_id_of
from tests.crash.topology import POSTGRES_VARIABLE
from tests.crash.topology import database as postgres_database
from tests.unit.cli.database import Database
from tests.unit.cli.dead_letter_runs import INBOX_ID

IN_INBOX = Selection(RUN_ID_PREFIX, conf={"connection_id": "c", "inbox_id": INBOX_ID})
SMALL, LARGE = (run_id_of(message_id, INBOX_ID) for message_id in ("small", "large"))
LONG = random.Random(1).randbytes(MAX_CONF_BYTES + 100_000).hex()
"""A database that compresses it still needs more than 1 MB."""


@pytest.fixture(params=["sqlite", "postgresql"])
def any_database(request: pytest.FixtureRequest) -> Iterator[Database]:
    if request.param == "sqlite":
        yield request.getfixturevalue("database")
        return
    if not (server := os.environ.get(POSTGRES_VARIABLE)):
        pytest.skip(f"{POSTGRES_VARIABLE} names no server")
    before = settings.Session.session_factory.kw["bind"]
    with postgres_database(server) as address:
        engine = create_engine(address)
        import_all_models()
        Base.metadata.create_all(engine)
        settings.Session.remove()
        settings.Session.configure(bind=engine)
        synchronize_log_template()
        try:
            yield Database()
        finally:
            settings.Session.remove()
            settings.Session.configure(bind=before)
            engine.dispose()


@pytest.fixture
def runs(any_database: Database) -> None:
    """One run with a small conf and one with a large one, of messages of one inbox."""
    any_database.add_dag("handle")
    for message_id, payload in (("small", 'a "payload" é'), ("large", LONG)):
        message: dict[str, Any] = {"id": message_id, "payload": payload, "count": 3}
        conf = {"connection_id": "c", "inbox_id": INBOX_ID, "message": message}
        DatabaseRuns().start("handle", run_id_of(message_id, INBOX_ID), conf)


def read(selection: Selection) -> dict[str, list[str | None]]:
    """The entries of the confs, by run id."""
    entries = ("inbox_id", ("message", "payload"), ("message", "count"), ("message", "missing"))
    pages = dag_runs.pages(selection, entries, size=10)
    return {run.run_id: list(run.conf.values()) for page in pages for run in page}


@pytest.mark.usefixtures("runs")
@pytest.mark.filterwarnings("error::sqlalchemy.exc.SADeprecationWarning")
def test_a_list_reads_no_large_conf_and_can_count_them() -> None:
    of_list = Selection(RUN_ID_PREFIX, conf=IN_INBOX.conf, is_large=False)

    assert read(of_list) == {SMALL: [INBOX_ID, 'a "payload" é', "3", None]}
    assert dag_runs.counts_by_dag(of_list) == {"handle": 1}
    assert dag_runs.counts_by_dag(Selection(RUN_ID_PREFIX, is_large=True)) == {"handle": 1}
    assert dag_runs.counts_by_dag(IN_INBOX) == {"handle": 2}
    assert dag_runs.counts_by_dag(Selection(RUN_ID_PREFIX, ())) == {}


@pytest.mark.usefixtures("runs")
def test_without_a_limit_each_conf_is_read() -> None:
    ids = {SMALL: INBOX_ID, LARGE: INBOX_ID}

    assert set(read(IN_INBOX)) == {SMALL, LARGE}
    assert set(dag_runs.runs_of(ids, ["handle"])) == {SMALL, LARGE}
    assert dag_runs.runs_of(dict.fromkeys(ids, "another"), ["handle"]) == {}
    (run,) = dag_runs.find_by_ids(IN_INBOX, ("inbox_id",), [LARGE])
    assert (run.is_large, run.conf) == (True, {"inbox_id": INBOX_ID})


@pytest.mark.usefixtures("runs")
def test_the_run_of_a_message_is_found_by_its_id_if_its_conf_is_too_large() -> None:
    runs = dag_runs.runs_of({SMALL: "another", LARGE: INBOX_ID}, ["handle"], omit_large_confs=True)

    assert {run_id: [run.is_large for run in runs_of_id] for run_id, runs_of_id in runs.items()} == {
        LARGE: [True]
    }
    assert set(runs[LARGE][0].conf.values()) == {None}
