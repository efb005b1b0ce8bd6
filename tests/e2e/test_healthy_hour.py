"""A healthy hour of everything leaves no WARNING and no ERROR of our making in any of Airflow's logs."""

from __future__ import annotations

import re
import shutil
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.crash.topology import metadata_database
from tests.e2e.examples import EXAMPLES
from tests.e2e.stage import PATIENCE_SECONDS, Inbox, Stage
from tests.logs import Entry, entries_of
from tools.local_airflow import LocalAirflow

pytestmark = pytest.mark.skipif(
    airflow_release() < (3, 3), reason="older versions lack some examples, and have other lines of their own"
)
HERE = Path(__file__).parent
EXAMPLES_FOLDER = HERE.parents[1] / "dags_examples"

LISTENERS = ("order_listener", "event_router")
"""Deferred listeners, of which one run always waits."""
LISTENED = ("orders", "events", "deliveries", "alerts", "signups")
"""Inboxes with a deferred listener or a watcher: their triggers hold tokens for the whole hour."""
POLLING = "polling_listener"
RUN_BY_HAND = (
    ("suggest_workflows", "set_up_tickets", "create_and_delete"),
    ("leave_promotion", "collect_readings"),
    ("work_then_acknowledge", "release_returns", "maintain_tickets"),
    ("store_measurements",),
)
"""Not all at once: SQLite has one writer, and Airflow fails a task whose requests wait for too long."""
NOT_HEALTHY = {"inbox_dead_letters.py"}
"""Examples of what goes wrong: a dead letter is a WARNING, and this one writes an ERROR of its own for it."""
HEALTHY = {file: example for file, example in EXAMPLES.items() if file not in NOT_HEALTHY}
INBOXES = {example.inbox: example.put for example in HEALTHY.values() if example.inbox}
ONE_MESSAGE = ({"n": 1},)
PARSED_ONCE = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300"}
"""No DAG file changes, and parsing them every few seconds would take most of two CPUs."""
TOKEN_SECONDS = 1500
MINUTES = (0, 30, 30)
"""How far the service's clock is moved before each round: an hour in all, past the ends of two tokens."""

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
    "logs/dag_id=welcome/*/attempt=1.log": "Welcome, ",
    "logs/dag_id=on_alerts/*/attempt=1.log": "Alert ",
    "logs/dag_id=suggest_workflows/*task_id=guess/*": "Guessed a workflow of ",
    "logs/dag_id=suggest_workflows/*task_id=templates/*": "workflow templates for shop, spreadsheet",
    "logs/dag_id=set_up_tickets/*/attempt=1.log": "Inbox tickets exists: id ",
    "logs/dag_id=maintain_tickets/*task_id=pause/*": "Inbox tickets is paused now",
    "logs/dag_id=create_and_delete/*task_id=delete/*": "Inbox short-lived was deleted",
    "logs/dag_id=work_then_acknowledge/*task_id=acknowledge/*": "acknowledged 2 of 2 messages",
    "logs/dag_id=release_returns/*task_id=release/*": "released 1 of 1 messages",
    "logs/dag_id=store_measurements/*task_id=store/*": "Measurement ",
    "logs/dag_id=leave_promotion/*/attempt=1.log": "Enrollment e-17 was ended",
}
"""What is found in each log, so that a WARNING there would be."""


class Hour:
    """
    Messages for everything that waits, and runs of everything else, while the service's clock is moved.

    :param stage: an Airflow of its own, and an emulator.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.api = stage.airflow.api
        self.inboxes = {name: Inbox.open(stage.emulator, name) for name in (*INBOXES, "parcels", "returns")}

    def pass_by(self) -> None:
        by_hand = [dag_id for group in RUN_BY_HAND for dag_id in group]
        self.stage.airflow.wait_for_dags(
            [*LISTENERS, POLLING, *by_hand, "on_alerts", "dispatch_deliveries", "welcome_listener"]
        )
        for minutes in MINUTES:
            self._until_all_wait()
            self.stage.emulator.store.clock.advance(minutes * 60)
            self._put_for_triggers()
            self._until_all_is_done()
            if not minutes:
                self._poll()
                self._run_by_hand()
                assert not self._refused(), "nothing has expired yet"
        assert self._refused(), "no token expired while it was used"

    def _refused(self) -> list[str]:
        """Requests that the service refused: those of an event stream with 401, all others with 400."""
        return [each.operation for each in self.stage.emulator.requests if each.status in (400, 401)]

    def _until_all_wait(self) -> None:
        """A token that is new when the clock is moved would be refused at its first request."""
        for dag_id in LISTENERS:
            self.stage.until(lambda dag_id=dag_id: self._waits(dag_id), f"{dag_id} to be deferred")
        streams = self.stage.emulator.emulator.streams
        self.stage.until(lambda: len(streams.open) == len(LISTENED), "all triggers to listen")

    def _put_for_triggers(self) -> None:
        for dag_id in LISTENERS:
            self.stage.until(lambda dag_id=dag_id: self._waits(dag_id), f"{dag_id} to be deferred")
        for name in LISTENED:
            self.inboxes[name].put(*INBOXES[name])

    def _waits(self, dag_id: str) -> bool:
        runs = self.api.dag_runs(dag_id)
        tasks = self.api.task_instances(dag_id, runs[-1]["dag_run_id"]) if runs else []
        return [task["state"] for task in tasks] == ["deferred"]

    def _poll(self) -> None:
        parcels = self.inboxes["parcels"]
        run_id = self.api.trigger_dag(POLLING)
        self.stage.until(lambda: len(parcels.requests("lease")) > 1, "a second poll")
        parcels.put(*ONE_MESSAGE)
        self.api.wait_for_run(POLLING, run_id, PATIENCE_SECONDS)

    def _run_by_hand(self) -> None:
        for name, inbox in self.inboxes.items():
            if name not in (*LISTENED, "parcels"):
                inbox.put(*INBOXES.get(name, ONE_MESSAGE))
        for group in RUN_BY_HAND:
            for run in [(dag_id, self.api.trigger_dag(dag_id)) for dag_id in group]:
                self.api.wait_for_run(*run, PATIENCE_SECONDS)
        self._until_all_is_done()

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
def log(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """Every entry of every log, after the hour."""
    home = tmp_path_factory.mktemp("healthy")
    folder = home / "dags"
    folder.mkdir()
    # On SQLite, processes of a busy machine wait for each other, until Airflow holds the triggerer for dead.
    with (
        metadata_database() as database,
        EmulatorServer(token_seconds=TOKEN_SECONDS, initializing_seconds=3) as emulator,
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
        # Only now: a task that starts before the API server answers is failed by Airflow.
        for file in (*EXAMPLES_FOLDER.glob("*.py"), HERE / "healthy" / "healthy.py"):
            if file.name not in NOT_HEALTHY:
                shutil.copy(file, folder)
        Hour(Stage(airflow, emulator)).pass_by()
        return list(entries_of(airflow.home))


def is_of_others(entry: Entry) -> bool:
    return any(re.search(pattern, entry.text) for pattern in OF_OTHERS)


def test_no_warning_and_no_error_is_of_our_making(log: list[Entry]) -> None:
    assert [str(entry) for entry in log if entry.is_alarming and not is_of_others(entry)] == []


@pytest.mark.parametrize("file", READ)
def test_every_log_was_read(log: list[Entry], file: str) -> None:
    assert any(fnmatchcase(entry.file, file) and READ[file] in entry.text for entry in log)
