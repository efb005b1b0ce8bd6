"""
Payloads in object storage with a real Airflow: on a disk, and behind an S3 API. Every way to work on a
message reads its payload as it was, and nothing of it is in the database, the logs and the pages.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import requests

from airflow_provider_workflow.dispatch.payload_store import CHECK_NAME
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.crash.topology import metadata_database
from tests.e2e.conftest import SETTINGS, new_bucket
from tests.e2e.object_storage import CONN_ID, PREFIX, Bucket, ObjectStorage
from tests.e2e.places import Place, decrypted_places, files, holds, of_tasks, places_of_lists, rows
from tests.e2e.stage import PATIENCE_SECONDS, Inbox, Stage, message_id_of
from tools.local_airflow import LocalAirflow

pytestmark = pytest.mark.since(3, 3, "places in which Airflow keeps things")

HERE = Path(__file__).parent
MARKER = "Zo-is-a-customer-of-ours"
BYTES = (0, 1_000, 100_000, 3_000_000, 30_000_000)
"""Sizes of the payloads of each inbox, about."""
SMALL = BYTES[:3]
WAYS = {
    "decorated": BYTES,
    "invalid": SMALL,
    "sensor": SMALL,
    "poking-sensor": SMALL,
    "dispatch": SMALL,
    "batches": SMALL,
    "receiver": SMALL,
}
"""The inbox of each way to work on messages, and the sizes of its payloads."""
COMMANDS = [
    ["doctor"],
    ["inbox", "list"],
    ["inbox", "show", "stored-decorated", "--output", "json"],
    ["inbox", "show", "stored-invalid"],
    ["dead-letters", "list"],
]
ONE_AFTER_THE_OTHER = (
    "import json, sys; from airflow_provider_workflow.cli.main import main;"
    "[print('==', main(words), words, flush=True) for words in json.load(sys.stdin)]"
)


def payload_of(inbox: str, size: int) -> dict[str, Any]:
    """A payload that holds the marker, and small values as well as one large one."""
    return {
        "name": MARKER,
        "of": inbox,
        "document": MARKER * (size // len(MARKER)),
        "lines": [{"n": number, "text": MARKER} for number in range(min(size // 100, 1000))],
    }


def digest_of(payload: Any) -> str:
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()


@dataclass
class Stored:
    """
    An Airflow whose payloads are in a store, after all messages were worked on.

    :param objects: the content of each object of the store, by its name below the path.
    :param inboxes: the inboxes, each with its payloads by message id.
    :param digests: what the function that works on batches wrote down.
    """

    stage: Stage
    objects: Callable[[], dict[str, bytes]]
    inboxes: dict[str, tuple[Inbox, dict[str, Any]]]
    digests: Path

    def put(self) -> None:
        """Put the messages."""
        for name, sizes in WAYS.items():
            inbox = Inbox.open(self.stage.emulator, f"stored-{name}")
            payloads = [payload_of(name, size) for size in sizes]
            self.inboxes[name] = inbox, dict(zip(inbox.put(*payloads), payloads, strict=True))

    def work(self) -> None:
        """Work on all of them in every way."""
        dags = ["sensor", "poking_sensor", "dispatch", "batches", "receiver"]
        dag_ids = [f"stored_{name}" for name in dags]
        self.stage.airflow.wait_for_dags([*dag_ids, "stored_decorated_listener", "stored_invalid_listener"])
        runs = [(dag_id, self.stage.airflow.api.trigger_dag(dag_id)) for dag_id in dag_ids]
        for dag_id, run_id in runs:
            self.stage.airflow.api.wait_for_run(dag_id, run_id, PATIENCE_SECONDS)
        for inbox, _ in self.inboxes.values():
            self.stage.until(inbox.all_acknowledged, f"the messages of {inbox.name} to be acknowledged")

    def digests_of(self, name: str, dag_id: str) -> dict[str, str]:
        """What the runs of the messages of an inbox read, by message id."""
        inbox, payloads = self.inboxes[name]

        def have_succeeded() -> bool:
            runs = self.stage.runs_of(inbox, dag_id)
            return len(runs) == len(payloads) and {run["state"] for run in runs} == {"success"}

        self.stage.until(have_succeeded, f"{len(payloads)} runs of {dag_id} to succeed")
        self.stage.check_one_run_each(inbox, list(payloads), dag_id)
        return {
            message_id_of(run["conf"]): self.stage.airflow.api.xcom(dag_id, run["dag_run_id"], "digest")
            for run in self.stage.runs_of(inbox, dag_id)
        }

    def expected(self, name: str) -> dict[str, str]:
        """The digests of the payloads that were put, by message id."""
        return {message_id: digest_of(payload) for message_id, payload in self.inboxes[name][1].items()}

    def outputs(self) -> Iterator[Place]:
        """What our commands and our page show."""
        process = subprocess.run(
            [sys.executable, "-c", ONE_AFTER_THE_OTHER],
            input=json.dumps(COMMANDS),
            env=self.stage.airflow.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert process.stdout.count("== 0") == len(COMMANDS), process.stdout + process.stderr
        yield "said: commands", (process.stdout + process.stderr).encode()
        headers = {"Authorization": f"Bearer {self.stage.airflow.api.token()}"}
        for path in ("inboxes", *(f"inboxes/{inbox.id}/messages" for inbox, _ in self.inboxes.values())):
            url = f"{self.stage.airflow.url}/workflow/api/connections/workflow_default/{path}"
            answer = requests.get(url, headers=headers, timeout=PATIENCE_SECONDS)
            assert answer.status_code == 200, answer.text
            yield f"page {path}", answer.content


@pytest.fixture(scope="module")
def bucket_of_module(object_storage: ObjectStorage | None) -> Iterator[Bucket]:
    yield from new_bucket(object_storage)


@pytest.fixture(params=["disk", "s3"], scope="module")
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    home = tmp_path_factory.mktemp("stored")
    folder, digests, disk = home / "dags", home / "digests", home / "payloads"
    folder.mkdir()
    digests.mkdir()
    connections = {}
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket_of_module")
        connections[CONN_ID] = bucket.storage.connection_json
        path = bucket.path

        def objects() -> dict[str, bytes]:
            return {key.removeprefix(f"{PREFIX}/"): content for key, content in bucket.objects.items()}
    else:
        path = f"file://{disk}"

        def objects() -> dict[str, bytes]:
            return {
                file.relative_to(disk).as_posix(): file.read_bytes()
                for file in disk.rglob("*")
                if file.is_file()
            }

    settings = {
        "AIRFLOW__WORKFLOW__PAYLOAD_OBJECTSTORAGE_PATH": path,
        "AIRFLOW__WORKFLOW__PAYLOAD_OBJECTSTORAGE_THRESHOLD": "0",
        "STORED_DIGESTS": str(digests),
    }
    with (
        metadata_database() as database,
        EmulatorServer() as emulator,
        LocalAirflow(
            home / "airflow",
            folder,
            {"workflow_default": emulator.connection_json(), **connections},
            SETTINGS | settings,
            parallelism=8,
            sql_alchemy_conn=database,
            log_level="INFO",
        ) as airflow,
    ):
        stored = Stored(Stage(airflow, emulator), objects, {}, digests)
        stored.put()
        shutil.copy(HERE / "stored" / "stored.py", folder)
        stored.work()
        yield stored


@pytest.fixture(scope="module")
def places(stored: Stored) -> list[Place]:
    """All that was written down or is shown, but for the store."""
    airflow = stored.stage.airflow
    return list(
        chain(
            files(airflow.home),
            rows(airflow),
            decrypted_places(airflow),
            places_of_lists(airflow.api),
            of_tasks(airflow.api),
            stored.outputs(),
        )
    )


@pytest.mark.parametrize(
    ("name", "dag_id"),
    [
        ("decorated", "stored_decorated"),
        ("invalid", "stored_dead_letters"),
        ("sensor", "stored_target"),
        ("poking-sensor", "stored_target"),
        ("dispatch", "stored_target"),
    ],
)
def test_the_run_of_each_message_reads_its_payload(stored, name, dag_id):
    assert stored.digests_of(name, dag_id) == stored.expected(name)


def test_a_function_of_batches_gets_the_payloads(stored):
    assert {file.name for file in stored.digests.iterdir()} == set(stored.expected("batches").values())


def test_a_task_after_a_sensor_reads_the_payloads_of_its_messages(stored):
    api = stored.stage.airflow.api
    [run] = api.dag_runs("stored_receiver")
    digests = api.xcom("stored_receiver", run["dag_run_id"], "digests")
    assert sorted(digests) == sorted(stored.expected("receiver").values())


def test_the_store_has_each_payload_once_by_its_digest(stored):
    """Those of batches are in no conf, so that they need no object."""
    objects = stored.objects()
    names = {name: hashlib.sha256(content).hexdigest() for name, content in objects.items()}
    names.pop(CHECK_NAME)
    assert all(name.endswith(f"/{digest}.json") for name, digest in names.items())
    payloads = [payload for name in WAYS if name != "batches" for payload in stored.inboxes[name][1].values()]
    assert sorted(digest_of(json.loads(objects[name])) for name in names) == sorted(map(digest_of, payloads))


def test_nothing_of_a_payload_is_in_the_database_in_logs_or_on_pages(places):
    assert {name for name, content in places if MARKER.encode() in content} == set()


def test_what_is_written_anywhere_is_found(stored, places):
    inbox, _ = stored.inboxes["decorated"]
    name = next(name for name in stored.objects() if name.startswith(inbox.id))
    looked_at = {
        "dag_run.conf": name,
        "*.rendered_fields": "payload_sha256",
        "xcom*.value": "payload_sha256",
        "API dags/~/dagRuns": name,
        "API xcomEntries": "payload_sha256",
        "API logs": "stored-decorated",
        "file logs/dag_id=*/attempt=1.log": "stored-decorated",
        "file triggerer.log": "stored-decorated",
        "page inboxes": "stored-decorated",
        "page inboxes/*/messages": '"id"',
        "said: commands": "stored-decorated",
    }
    assert [pattern for pattern, text in looked_at.items() if not holds(places, pattern, text)] == []
