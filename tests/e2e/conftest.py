from __future__ import annotations

import inspect
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.conftest import lacking
from tests.crash.topology import POSTGRES_VARIABLE, metadata_database
from tests.e2e.counting import Statsd
from tests.e2e.leaks import REFUSED, check_that_no_secret_was_left
from tests.e2e.object_storage import CONN_ID, S3_VARIABLE, Bucket, ObjectStorage
from tests.e2e.stage import Inbox, Run, Stage
from tests.marks import Marks
from tools.local_airflow import LocalAirflow

DAGS_FOLDER = Path(__file__).parent / "dags"
ROOT = Path(__file__).parents[2]
STOPS = Path(__file__).parent / "stops"
INBOX_NUMBERS = itertools.count(1)
AT_ONCE = 4
"""How many of the tests that run together do so at once: more would keep the scheduler from the CPU."""
ENDED = pytest.StashKey[dict[str, Future[None]]]()
"""What became of them."""
LONG = (
    "test_programs",
    "test_system",
    "test_secrets_at_debug",
    "test_screenshots",
    "test_tutorial",
    "test_testing_example",
    "test_every_step",
    "test_examples",
    "test_payload_store",
    "test_kills",
    "test_listener",
    "test_distribution",
    "test_notice",
    "test_demo",
    "test_event",
    "test_hostile",
    "test_batches",
)
"""
Files that take longest: begun first, so that no process is left alone with one in the end. Those that
mostly wait, as for processes that were killed, are begun beside those that need the CPU.
"""
SETTINGS = {
    # A triggerer that was killed counts as alive for this long; its triggers wait until then.
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "5",
    # A file that changes is parsed at once; the others, again and again, would take a quarter of a CPU.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "together: runs beside the others of its file that are marked so")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


@pytest.fixture(scope="session")
def marks() -> Marks:
    """The secrets of all tests, which are searched for at the end; a test that makes one adds it."""
    return Marks()


@pytest.fixture(scope="session")
def emulator(marks: Marks) -> Iterator[EmulatorServer]:
    """The workflow service, shared by all tests: each takes an inbox of its own."""
    with EmulatorServer(client_secret=marks.new("client secret")) as emulator:
        # A listener of dags/decorated.py waits from the beginning.
        emulator.open_inbox("decorated")
        yield emulator


@pytest.fixture(scope="session")
def statsd() -> Iterator[Statsd]:
    """Where this Airflow sends the metrics of the provider."""
    with Statsd() as statsd:
        yield statsd


@pytest.fixture(scope="session")
def object_storage(marks: Marks) -> ObjectStorage | None:
    """The S3 API that the environment names; None where it names none."""
    url = os.environ.get(S3_VARIABLE)
    return ObjectStorage(url, marks.new("S3 secret")) if url else None


@pytest.fixture(scope="session")
def dags_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The DAG files of these tests, where tests may add and change some."""
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(DAGS_FOLDER, tmp_path_factory.mktemp("dags"), ignore=ignored, dirs_exist_ok=True)


@pytest.fixture(scope="session")
def stops_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a test says at which step a process is to stand still (``stops/sitecustomize.py``)."""
    return tmp_path_factory.mktemp("stops")


@pytest.fixture(scope="session")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    emulator: EmulatorServer,
    dags_folder: Path,
    stops_folder: Path,
    statsd: Statsd,
    marks: Marks,
    object_storage: ObjectStorage | None,
) -> Iterator[LocalAirflow]:
    """
    A running Airflow, shared by all tests of a process: leave its own four processes alive.

    It is on PostgreSQL where the environment names a server; on SQLite writers wait for each other.
    """
    user = emulator.connection()
    user["extra"]["grant"] = "refresh_token"
    connections = {
        "workflow_default": emulator.connection_json(),
        "workflow_wrong": json.dumps({**emulator.connection(), "password": marks.new("wrong secret")}),
        "workflow_user": json.dumps(user),
    }
    if object_storage:
        connections[CONN_ID] = object_storage.connection_json
    home = tmp_path_factory.mktemp("airflow")
    # The package and the tests of this checkout, whatever is installed.
    path = os.pathsep.join((str(STOPS), str(ROOT)))
    stops = {"WORKFLOW_TEST_STOPS": str(stops_folder), "PYTHONPATH": path}
    settings = SETTINGS | stops | statsd.settings
    with (
        metadata_database() as database,
        LocalAirflow(
            home,
            dags_folder,
            connections,
            settings,
            parallelism=8,
            sql_alchemy_conn=database,
            log_level="INFO",
        ) as airflow,
    ):
        yield airflow


@pytest.fixture(scope="session")
def refused(airflow: LocalAirflow, emulator: EmulatorServer, marks: Marks) -> Iterator[Run]:
    """A run that fails for a wrong secret, after a minute: what is wrong for less is no alarm."""
    stage = Stage(airflow, emulator)
    run = stage.start(REFUSED, "no-such-inbox")
    yield run
    run.fails()
    check_that_no_secret_was_left(stage, marks)


@pytest.fixture(scope="session")
def stage(airflow: LocalAirflow, emulator: EmulatorServer, refused: Run) -> Stage:
    """The Airflow, with the run that fails for a wrong secret, which needs the time that the tests take."""
    return Stage(airflow, emulator)


def open_inbox(emulator: EmulatorServer, item: pytest.Item) -> Inbox:
    """An inbox of the test's own, though tests of two files have one name."""
    name = re.sub(r"\W+", "-", item.name)[:90]
    return Inbox.open(emulator, f"{name}-{next(INBOX_NUMBERS)}")


@pytest.fixture
def inbox(emulator: EmulatorServer, request: pytest.FixtureRequest) -> Inbox:
    return open_inbox(emulator, request.node)


def new_bucket(object_storage: ObjectStorage | None) -> Iterator[Bucket]:
    """A bucket, deleted in the end; a test that cannot have one is skipped."""
    if object_storage is None:
        pytest.skip(f"{S3_VARIABLE} names no S3 API (python -m tools.s3_api starts one)")
    bucket = object_storage.create_bucket()
    yield bucket
    bucket.delete()


@pytest.fixture
def bucket(object_storage: ObjectStorage | None) -> Iterator[Bucket]:
    """A bucket of the test's own, to which the connection ``aws_test`` of the shared Airflow leads."""
    yield from new_bucket(object_storage)


# Tests that run together


@pytest.fixture(autouse=True)
def ended(request: pytest.FixtureRequest) -> None:
    """
    Run the tests of a file that are marked ``together`` when the first of them is due: mostly they wait.

    Each is given an inbox and a folder of its own; its other fixtures are shared.
    """
    first, stash = request.node, request.session.stash
    if not first.get_closest_marker("together") or first.nodeid in stash.get(ENDED, {}):
        return

    def argument(item: pytest.Function, name: str) -> Any:
        if name in (params := item.callspec.params if hasattr(item, "callspec") else {}):
            return params[name]
        if name == "inbox":
            return open_inbox(request.getfixturevalue("emulator"), item)
        if name == "tmp_path":
            return request.getfixturevalue("tmp_path_factory").mktemp("together")
        return request.getfixturevalue(name)

    of_file = [item for item in request.session.items if item.path == first.path and not lacking(item)]
    # SQLite has one writer at a time, and Airflow answers 500 if it waits too long for its turn.
    with ThreadPoolExecutor(AT_ONCE if os.environ.get(POSTGRES_VARIABLE) else 1) as threads:
        stash[ENDED] = {
            item.nodeid: threads.submit(
                item.obj, **{name: argument(item, name) for name in inspect.signature(item.obj).parameters}
            )
            for item in of_file
            if isinstance(item, pytest.Function) and item.get_closest_marker("together")
        }


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Say how a test ended that has run already."""
    if not pyfuncitem.get_closest_marker("together"):
        return None
    pyfuncitem.session.stash[ENDED][pyfuncitem.nodeid].result()
    return True
