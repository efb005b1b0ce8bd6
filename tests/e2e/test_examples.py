"""
A healthy hour of all example DAGs: each does what its table (``examples.py``) says, and nothing is logged at
WARNING or above that is of our making.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.crash.topology import metadata_database
from tests.e2e.examples import EXAMPLES, ExpectedText
from tests.e2e.stage import PATIENCE_SECONDS, Inbox, Run, Stage
from tests.logs import Entry, entries_of
from tools.local_airflow import LocalAirflow

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "dags_examples"
NOT_HEALTHY = "inbox_dead_letters.py"
"""An example of what goes wrong: its dead letter is a WARNING, and it writes an ERROR of its own for it."""
HEALTHY = {name: example for name, example in EXAMPLES.items() if example.runs_here and name != NOT_HEALTHY}
PUT = {example.inbox: example.put for example in HEALTHY.values() if example.inbox}
LISTENED = [example.inbox for example in HEALTHY.values() if example.inbox and not example.start]
"""Inboxes with a deferred listener or a watcher: their triggers hold tokens for the whole hour."""
LISTENERS = ("order_listener", "event_router")
"""Deferred listeners, of which one run always waits."""
POLLING = "polling_listener"
RUN_BY_HAND = (
    [*(example.start[0] for example in HEALTHY.values() if example.start), "create_and_delete"],
    [
        *(dag_id for example in HEALTHY.values() for dag_id in example.start[1:]),
        "leave_promotion",
        "release_returns",
    ],
)
ONE_MESSAGE = ({"n": 1},)
PARSED_ONCE = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300"}
"""No DAG file changes, and parsing them every few seconds would take most of two CPUs."""
TOKEN_SECONDS = 1500
MINUTES = (0, 60)
"""How far the service's clock is moved before each round: past the end of a token."""
LATEST = 20
"""Of a DAG whose runs are not named after messages, so many runs are looked at."""

OF_OTHERS = {
    r"Using `httpx` with `starlette\.testclient`": "what FastAPI says when Airflow imports it",
    r"JWT reissue middleware failed to refresh token": "the request by which tests warm the API server up",
    r"database is locked": "SQLite, which only tests run Airflow on, and only without a PostgreSQL server",
    r"Error with id \w+, statement: INSERT INTO log ": (
        "the same for Airflow's audit log, of which the API server logs the statement without the error"
    ),
    r"Starting call to 'airflow\.sdk\.api\.client\.Client\.request'": (
        "Airflow repeats a request of a task; the API server's own line, which is read too, has the cause"
    ),
}
"""Lines at WARNING and above that Airflow writes without us, and why."""

READ = {
    "scheduler.log": "Inbox orders",
    "triggerer.log": "Inbox deliveries",
    "api-server.log": "request finished",
    "dag-processor.log": "[info ",
    "logs/dag_processor/*/inbox_listener.py.log": '"level":"info"',
    "logs/dag_id=order_listener/*.trigger.*.log": "waiting for messages, by its event stream and by polling",
    "logs/dag_id=polling_listener/*/attempt=1.log": "nothing to do yet; polling every 1 s",
    "logs/dag_id=dispatch_deliveries/*/attempt=1.log": "Inbox deliveries",
    "logs/dag_id=welcome_listener/*/attempt=1.log": "Inbox signups",
    "logs/dag_id=set_up_tickets/*/attempt=1.log": "Inbox tickets exists: id ",
    "logs/dag_id=create_and_delete/*task_id=delete/*": "Inbox short-lived was deleted",
    "logs/dag_id=work_then_acknowledge/*task_id=acknowledge/*": "acknowledged 2 of 2 messages",
    "logs/dag_id=release_returns/*task_id=release/*": "released 1 of 1 message",
    "logs/dag_id=leave_promotion/*/attempt=1.log": "Enrollment e-17 was ended",
}
"""What is found in logs, so that a WARNING there would be."""

since_3_3 = pytest.mark.since(3, 3, "all examples, and the lines of Airflow's own that are known here")


@dataclass
class Hour:
    """
    Messages for everything that waits, and runs of everything else, while the service's clock is moved.

    :param stage: an Airflow of its own, and an emulator.
    :param ids: of the first messages of each inbox.
    :param log: every entry of every log, after the hour.
    """

    stage: Stage
    ids: dict[str, list[str]]
    log: list[Entry]

    def __post_init__(self) -> None:
        self.api = self.stage.airflow.api
        names = (*PUT, "parcels", "returns")
        self.inboxes = {name: Inbox.open(self.stage.emulator, name) for name in names}

    def pass_by(self) -> None:
        by_hand = [dag_id for wave in RUN_BY_HAND for dag_id in wave]
        dag_ids = [text.dag_id for example in HEALTHY.values() for text in example.see]
        self.stage.airflow.wait_for_dags([*LISTENERS, POLLING, *by_hand, *dag_ids])
        for minutes in MINUTES:
            self._until_all_wait()
            self.stage.emulator.store.clock.advance(minutes * 60)
            for name in LISTENED:
                self.put(name)
            if not minutes:
                self._run_by_hand()
            self._until_all_is_done()
            assert bool(self._refused()) == bool(minutes), "tokens expire when the clock is moved, not before"

    def put(self, name: str) -> None:
        ids = self.inboxes[name].put(*PUT.get(name, ONE_MESSAGE))
        self.ids.setdefault(name, ids)

    def _refused(self) -> list[str]:
        """Requests that the service refused: those of an event stream with 401, all others with 400."""
        return [request.operation for request in self.stage.emulator.requests if request.status in (400, 401)]

    def _until_all_wait(self) -> None:
        """A token that is new when the clock is moved would be refused at its first request."""
        for dag_id in LISTENERS:
            self.stage.until(lambda dag_id=dag_id: self._waits(dag_id), f"{dag_id} to be deferred")
        streams = self.stage.emulator.emulator.streams
        self.stage.until(lambda: len(streams.open) == len(LISTENED), "all triggers to listen")

    def _waits(self, dag_id: str) -> bool:
        runs = self.api.dag_runs(dag_id)
        tasks = self.api.task_instances(dag_id, runs[-1]["dag_run_id"]) if runs else []
        return [task["state"] for task in tasks] == ["deferred"]

    def _run_by_hand(self) -> None:
        polling = self.api.trigger_dag(POLLING)
        for name in self.inboxes:
            if name not in (*LISTENED, "parcels"):
                self.put(name)
        for wave in RUN_BY_HAND:
            for run in [(dag_id, self.api.trigger_dag(dag_id)) for dag_id in wave]:
                self.api.wait_for_run(*run, PATIENCE_SECONDS)
        self.stage.until(lambda: len(self.inboxes["parcels"].requests("lease")) > 1, "a second poll")
        self.put("parcels")
        self.api.wait_for_run(POLLING, polling, PATIENCE_SECONDS)

    def _until_all_is_done(self) -> None:
        for name, inbox in self.inboxes.items():
            # What is released stays there.
            if name != "returns":
                self.stage.until(inbox.all_acknowledged, f"the messages of {name} to be acknowledged")
        self.stage.until(lambda: not self._unfinished(), "all runs to have ended")

    def _unfinished(self) -> list[str]:
        params = {"state": ["queued", "running"], "limit": 100}
        runs = self.api.request("GET", "dags/~/dagRuns", params=params)["dag_runs"]
        return [run["dag_id"] for run in runs if run["dag_id"] not in LISTENERS]


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hour]:
    """After the hour: the example of what goes wrong is there too."""
    home = tmp_path_factory.mktemp("healthy")
    folder = home / "dags"
    folder.mkdir()
    # On SQLite, processes of a busy machine wait for each other, until Airflow holds the triggerer for dead.
    with (
        metadata_database() as database,
        EmulatorServer(token_seconds=TOKEN_SECONDS) as emulator,
        LocalAirflow(
            home / "airflow",
            folder,
            {"workflow_default": emulator.connection_json()},
            PARSED_ONCE,
            parallelism=4,
            sql_alchemy_conn=database,
            log_level="INFO",
        ) as airflow,
    ):
        hour = Hour(Stage(airflow, emulator), {}, [])
        # Only now: a task that starts before the API server answers is failed by Airflow.
        for file in (*(FOLDER / name for name in HEALTHY), HERE / "healthy" / "healthy.py"):
            shutil.copy(file, folder)
        hour.pass_by()
        hour.log.extend(entries_of(airflow.home))
        shutil.copy(FOLDER / NOT_HEALTHY, folder)
        example = EXAMPLES[NOT_HEALTHY]
        assert example.inbox
        hour.ids[example.inbox] = emulator.put(example.inbox, *example.put)
        airflow.wait_for_dags([text.dag_id for text in example.see])
        yield hour


@pytest.mark.parametrize("file", EXAMPLES)
def test_an_example_does_what_it_is_for(hour: Hour, file: str) -> None:
    example = EXAMPLES[file]
    if not example.runs_here:
        pytest.skip(f"needs Airflow {example.since[0]}.{example.since[1]}")
    inbox = Inbox.open(hour.stage.emulator, example.inbox) if example.inbox else None
    ids = hour.ids[inbox.name] if inbox else []
    run_ids = {inbox.run_id_of(id_) for id_ in ids} if inbox else set()
    for log_text in example.see:
        text = log_text.text.format(id=ids, payload=example.put)
        hour.stage.until(
            lambda expected=log_text, text=text: any(
                text in output for output in sayings(hour.stage, expected, run_ids)
            ),
            f"{log_text.task_id}: {text}",
        )
    if inbox:
        hour.stage.until(inbox.all_acknowledged, f"the messages of {inbox.name} to be gone")


def sayings(stage: Stage, log_text: ExpectedText, run_ids: set[str]) -> Iterator[str]:
    """What a task printed, and what it returned, in each run that may be the one."""
    api, task_id = stage.airflow.api, log_text.task_id
    runs = [run["dag_run_id"] for run in api.dag_runs(log_text.dag_id) if run["state"] == "success"]
    own_runs = run_ids.intersection(runs)
    for run_id in own_runs or runs[-LATEST:]:
        (task,) = (
            instance
            for instance in api.task_instances(log_text.dag_id, run_id)
            if instance["task_id"] == task_id
        )
        yield api.task_log(log_text.dag_id, run_id, task_id, task["try_number"])
        yield json.dumps(Run(stage.airflow, log_text.dag_id, run_id).result(task_id))


@since_3_3
def test_no_warning_and_no_error_is_of_our_making(hour: Hour) -> None:
    alarms = [entry for entry in hour.log if entry.is_alarming]
    ours = [str(alarm) for alarm in alarms if not any(re.search(one, alarm.text) for one in OF_OTHERS)]
    assert ours == []


@since_3_3
def test_every_log_was_read(hour: Hour) -> None:
    def is_read(file: str) -> bool:
        return any(fnmatchcase(entry.file, file) and READ[file] in entry.text for entry in hour.log)

    assert [file for file in READ if not is_read(file)] == []
