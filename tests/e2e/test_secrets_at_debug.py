"""Where everything logs all it can: no secret is anywhere but in what Airflow encrypts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest

from tests.e2e.leaks import ENCRYPTED
from tests.e2e.places import Place, decrypted_places, files, holds, of_tasks, places_of_lists, rows
from tests.e2e.sealed_airflow import NAME, Sealed, sealed
from tests.marks import Marks

pytestmark = [
    pytest.mark.nightly,  # what `make e2e` logs, at INFO, is searched by `leaks.py`
    pytest.mark.since(3, 3, "places in which Airflow keeps things"),
]
OF_HERE = {
    ("decrypted connection.password", "wrong secret"),
    ("decrypted variable.val", "the secret part of an address"),
}
FOR_THE_BROWSER = {("said: the address to log in at", "state")}
LOOKED_AT = {
    "file airflow.db*": NAME,
    "file api-server.log": NAME,
    "file dag-processor.log": NAME,
    "file scheduler.log": NAME,
    "file triggerer.log": NAME,
    "file logs/dag_id=*/attempt=1.log": NAME,
    # A listener without valid credentials fails before it has a trigger.
    "file logs/dag_id=*/attempt=1.log.trigger.*.log": "workflow_user",
    "asset.name": NAME,
    "asset_event.extra": NAME,
    "connection.description": NAME,
    "dag_run.conf": NAME,
    "decrypted connection.extra": NAME,
    "decrypted trigger.kwargs": NAME,
    "log.extra": NAME,
    # With a prefix, as Airflow 3.4 has other names for these tables.
    "r*.rendered_fields": NAME,
    "serialized_dag.data": NAME,
    "trigger.kwargs": NAME,
    "variable.description": NAME,
    "xcom*.value": NAME,
    "API assets": NAME,
    "API assets/events": NAME,
    "API connections": NAME,
    "API dags/~/dagRuns": NAME,
    "API dags/~/dagRuns/~/taskInstances": NAME,
    "API eventLogs": NAME,
    "API logs": NAME,
    "API variables": NAME,
    "API xcomEntries": NAME,
    "said: POST variable": NAME,
    "said: POST workflow_default": NAME,
    "said: commands": NAME,
    "said: login": "Logged in",
    "said: test workflow_wrong": "invalid_client",
}
"""What is to be found in each place, so that a secret would be."""
LOUD = ("file api-server.log", "file logs/dag_id=*/attempt=1.log", "said: commands")
"""Where the calls of tasks, of the page and of commands are logged by their libraries."""


@pytest.fixture(scope="module")
def sealed_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealed]:
    with sealed(tmp_path_factory.mktemp("sealed"), Marks()) as sealed_stage:
        yield sealed_stage


@pytest.fixture(scope="module")
def places(sealed_stage: Sealed) -> list[Place]:
    """All that was written down."""
    airflow, api = sealed_stage.airflow, sealed_stage.airflow.api
    outputs = ((f"said: {command}", text.encode()) for command, text in sealed_stage.outputs.items())
    return list(
        chain(
            files(airflow.home),
            rows(airflow),
            decrypted_places(airflow),
            places_of_lists(api),
            of_tasks(api),
            outputs,
        )
    )


def test_no_secret_is_anywhere_but_in_encrypted_columns(sealed_stage, places):
    secrets = {(place, kind) for place, content in places for kind in sealed_stage.marks.kinds_in(content)}
    assert secrets == ENCRYPTED | OF_HERE | FOR_THE_BROWSER


def test_what_is_written_anywhere_is_found(places):
    assert [pattern for pattern, text in LOOKED_AT.items() if not holds(places, pattern, text)] == []


def test_the_libraries_log_what_they_send(places):
    assert [pattern for pattern in LOUD if not holds(places, pattern, "POST /oauth/token/ HTTP/1.1")] == []
