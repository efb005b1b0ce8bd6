"""Notifications of the service become runs of a dispatch DAG, and those the runs of messages."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.stage import PATIENCE_SECONDS, Inbox, Stage
from tests.marks import Marks
from tools.airflow_api import Json

DISPATCHER, HANDLER = "dispatch_shipments", "handle_shipment"
PASSWORD = "a-password-that-nobody-must-see"


class ReceiverProcess:
    """
    A receiver in a process of its own, at an address that stays the same when it starts again.

    :param stage: whose Airflow it starts runs in, through the REST API alone.
    :param home: where its secret and its log lie.
    """

    def __init__(self, stage: Stage, home: Path) -> None:
        self._stage = stage
        self._secret = home / "secret"
        self._log = home / "log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def _command(self, *more: str) -> list[str]:
        module = [sys.executable, "-m", "airflow_provider_workflow.receiver"]
        return [*module, "--route", f"shipments={DISPATCHER}", "--secret-file", str(self._secret), *more]

    @property
    def url(self) -> str:
        """The address for the service."""
        command = self._command("--show-urls", f"http://127.0.0.1:{self._port}")
        shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
        return shown.split()[-1]

    @property
    def log(self) -> str:
        return self._log.read_text()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        airflow = self._stage.airflow
        ours = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        ours |= {"NO_PROXY": airflow.env["NO_PROXY"], "no_proxy": airflow.env["no_proxy"]}
        serve = ["--airflow-url", airflow.url, "--airflow-username", "receiver", "--port", str(self._port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(*serve),
                env={**ours, "WORKFLOW_RECEIVER_AIRFLOW_PASSWORD": PASSWORD},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._stage.until(self._listens, "the receiver to listen")

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", self._port)) == 0

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it, unless that is done; return its exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(30)


@pytest.fixture
def receiver(stage: Stage, tmp_path: Path, marks: Marks) -> Iterator[ReceiverProcess]:
    made = ReceiverProcess(stage, tmp_path)
    made.start()
    marks.add("the receiver's password", PASSWORD)
    marks.add("the secret part of an address", made.url.rpartition("/")[2])
    yield made
    made.end(signal.SIGKILL)


@pytest.fixture
def shipments(stage: Stage, receiver: ReceiverProcess) -> Iterator[Inbox]:
    """The inbox of the example, which notifies the receiver."""
    inbox = Inbox.open(stage.emulator, "shipments")
    stage.airflow.wait_for_dags([DISPATCHER, HANDLER])
    stage.emulator.store.inboxes.update(inbox.id, receiver.url)
    yield inbox
    stage.emulator.store.inboxes.update(inbox.id, None)


def put(inbox: Inbox, count: int) -> list[str]:
    """Let messages arrive one by one, each with a notification of its own."""
    return [message_id for n in range(count) for message_id in inbox.put({"n": n})]


def notifications(stage: Stage, url: str, status: int | None = None) -> int:
    """How many notifications to an address were answered, by any status or by this one."""
    sent = [each["status"] for each in list(stage.emulator.emulator.webhooks.sent) if each["url"] == url]
    return len(sent) if status is None else sent.count(status)


def notified(stage: Stage) -> list[Json]:
    """The dispatch runs that a receiver started, oldest first."""
    runs = stage.airflow.api.dag_runs(DISPATCHER)
    return [run for run in runs if run["dag_run_id"].startswith("notified__shipments__")]


def asked(stage: Stage) -> int:
    """How often Airflow's API server was asked for the runs of an inbox, as its log has it."""
    return stage.airflow.logs("api-server").read_text(errors="replace").count("run_id_pattern=")


def waiting_together(runs: list[Json]) -> list[tuple[str, str]]:
    """Pairs of runs of which the second was queued before the first one had begun."""
    begun = [(run["queued_at"], run["start_date"], run["dag_run_id"]) for run in runs]
    return [
        (first[2], second[2])
        for first, second in pairwise(begun)
        if first[1] is None or datetime.fromisoformat(second[0]) < datetime.fromisoformat(first[1])
    ]


def check_one_run_each(stage: Stage, inbox: Inbox, ids: list[str]) -> None:
    """Wait until each of these messages has its one run, which succeeded."""
    stage.until(inbox.all_acknowledged, "the messages to be acknowledged")
    for message_id in ids:
        stage.airflow.api.wait_for_run(HANDLER, inbox.run_id_of(message_id), PATIENCE_SECONDS)
    runs = Counter(run["conf"]["message"]["id"] for run in stage.runs_of(inbox, HANDLER))
    assert {message_id: runs[message_id] for message_id in ids} == dict.fromkeys(ids, 1)
    assert inbox.lease_counts == [1]


def test_bursts_start_one_run_per_message_and_one_dispatch_run_waits_at_most(stage, receiver, shipments):
    url, ids, before = receiver.url, [], len(notified(stage))
    for burst in (1, 15, 30):
        ids += put(shipments, burst)
        stage.until(shipments.all_acknowledged, f"the burst of {burst} to be acknowledged")
    stage.until(lambda: notifications(stage, url, 200) == 46, "every notification to be answered")

    ids += put(shipments, 10)
    receiver.end(signal.SIGKILL)
    ids += put(shipments, 10)
    stage.until(lambda: notifications(stage, url) == len(ids), "the service to give up")
    assert notifications(stage, url, 200) < len(ids), "nobody was there to answer"
    # One that waits already would do for the ring as well.
    stage.until(lambda: "queued" not in {run["state"] for run in notified(stage)}, "no run to wait any more")
    runs_of_the_first = len(notified(stage))
    receiver.start()
    stage.until(lambda: len(notified(stage)) > runs_of_the_first, "the ring of its start")

    check_one_run_each(stage, shipments, ids)
    runs = notified(stage)[before:]
    assert {run["conf"]["inbox"] for run in runs} == {"shipments"}
    assert waiting_together(runs) == []
    assert len(runs) < 46, "many notifications, few runs"


def test_while_the_dispatch_dag_is_paused_a_single_run_waits(stage, receiver, shipments):
    before = len(notified(stage))
    stage.airflow.api.pause(DISPATCHER)
    try:
        ids = put(shipments, 10)
        stage.until(lambda: "queued" in {run["state"] for run in notified(stage)}, "a run to wait")
        for _ in range(3):  # what comes of a look is certain when the next one has begun
            looks = asked(stage)
            ids += put(shipments, 5)
            stage.until(lambda seen=looks: asked(stage) > seen, "the receiver to look once more")
        assert Counter(run["state"] for run in notified(stage))["queued"] == 1
    finally:
        stage.airflow.api.unpause(DISPATCHER)
    check_one_run_each(stage, shipments, ids)
    assert waiting_together(notified(stage)[before:]) == []


def test_an_airflow_that_is_away_is_waited_for(stage, receiver, shipments):
    stage.until(lambda: "started run" in receiver.log, "the ring of its start")
    stage.until(
        lambda: {run["state"] for run in stage.airflow.api.dag_runs(DISPATCHER)} == {"success"},
        "no task to be at work that needs the API server",
    )
    stage.airflow.kill("api-server", tree=True)
    ids = put(shipments, 3)
    stage.until(lambda: "WARNING" in receiver.log, "the receiver to notice")
    stage.airflow.restart("api-server")
    stage.airflow.wait_until_healthy()
    check_one_run_each(stage, shipments, ids)
    assert receiver.log.count("WARNING") == 1


def test_the_receiver_writes_no_secret_and_ends_when_it_is_told_to(stage, receiver, shipments, marks):
    check_one_run_each(stage, shipments, put(shipments, 2))
    assert receiver.end() == 0
    assert "started run notified__shipments__" in receiver.log
    assert marks.found(receiver.log) == []
