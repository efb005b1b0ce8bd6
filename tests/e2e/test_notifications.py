"""Notifications of the service become runs of the DAG that is scheduled on the inbox's asset."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest
import requests

from airflow_provider_workflow.assets import uri_of
from tests.e2e.stage import PATIENCE_SECONDS, Inbox, Stage
from tests.e2e.watching import account, dag_file, events_of
from tests.marks import Marks
from tools.airflow_api import Json

NAME = "notified"
SUBSCRIPTION = ("--app-key", "shop", "--action-key", "new_order")
DAG_FILE = f"""
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_workflow.assets import create_asset, schedule_of
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator

with DAG({NAME!r}, schedule=schedule_of(create_asset(inbox={NAME!r})), max_active_runs=1):
    WorkflowInboxDispatchOperator(
        task_id="work", inbox={NAME!r}, trigger_dag_id="target", retries=5, retry_delay=timedelta(seconds=1)
    )
"""
ASSET = uri_of(NAME, "workflow_default")


@dataclass(frozen=True)
class Notified:
    """
    :param inbox: notifies the API server.
    :param url: by which it does.
    """

    stage: Stage
    inbox: Inbox
    url: str

    def put(self, count: int) -> list[str]:
        """Let messages arrive one by one, each with a notification of its own."""
        return [message_id for n in range(count) for message_id in self.inbox.put({"n": n})]

    @property
    def answers(self) -> list[int]:
        """How the notifications were answered."""
        sent = list(self.stage.emulator.emulator.webhooks.sent)
        return [each["status"] for each in sent if each["url"] == self.url]

    @property
    def runs(self) -> list[Json]:
        """The runs of the DAG that is scheduled on the asset, oldest first."""
        return self.stage.airflow.api.dag_runs(NAME)

    @property
    def log(self) -> str:
        return self.stage.airflow.logs("api-server").read_text(errors="replace")


@pytest.fixture(scope="module")
def notified(stage: Stage, dags_folder: Path, marks: Marks) -> Iterator[Notified]:
    command = [sys.executable, "-m", "airflow_provider_workflow.cli.main", "inbox", "ensure", NAME]
    env = {**stage.airflow.env, "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}
    shown = subprocess.run(
        [*command, *SUBSCRIPTION, "--notify", "-o", "json"],
        env=env,
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    ).stdout
    made = json.loads(shown)
    assert made["notification_url"] == f"{stage.airflow.url}/***"
    url = stage.emulator.store.inboxes.get(made["id"]).notification_url
    marks.add("the secret part of a notification_url", url.rpartition("/")[2])
    with dag_file(stage, dags_folder, NAME, DAG_FILE, NAME, "target"):
        yield Notified(stage, Inbox(stage.emulator, NAME, made["id"]), url)


def waiting_together(runs: list[Json]) -> list[tuple[str, str]]:
    """Pairs of runs of which the second was queued before the first one had begun."""
    begun = [(run["queued_at"], run["start_date"], run["dag_run_id"]) for run in runs]
    return [
        (first[2], second[2])
        for first, second in pairwise(begun)
        if first[1] is None or moment(second[0]) < moment(first[1])
    ]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def check_one_run_each(notified: Notified, ids: list[str]) -> None:
    """Wait until each message that ever arrived has its one run."""
    stage = notified.stage
    stage.until(notified.inbox.all_acknowledged, "the messages to be acknowledged")
    stage.wait_until_succeeded(notified.inbox, ids)
    found = account(stage, notified.inbox, ids, ASSET)
    assert (found.lost, found.duplicates) == (0, 0)
    assert notified.inbox.lease_counts == [1]


def test_many_notifications_are_few_runs_of_which_one_waits_at_most(notified: Notified) -> None:
    stage, ids = notified.stage, []
    for burst in (1, 15, 30):
        ids += notified.put(burst)
        stage.until(notified.inbox.all_acknowledged, f"the burst of {burst} to be acknowledged")
    stage.until(lambda: len(notified.answers) == 46, "every notification to be answered")

    began = time.monotonic()
    senders = [Thread(target=notify, args=(notified.url, 250)) for _ in range(4)]
    for each in senders:
        each.start()
    ids += notified.put(10)
    for each in senders:
        each.join()
    seconds = time.monotonic() - began
    check_one_run_each(notified, ids)

    assert set(notified.answers) == {200}
    events, runs = len(events_of(stage, ASSET)), len(notified.runs)
    print(f"1,056 notifications, 1,000 of them in {seconds:.1f} s: {events} events, {runs} runs")
    assert runs <= events < 46 + seconds + 2
    assert waiting_together(notified.runs) == []


def notify(url: str, times: int) -> None:
    with requests.Session() as session:
        session.trust_env = False
        for _ in range(times):
            assert session.post(url, json={"received_message_count": 1}, timeout=60).status_code == 200


def test_after_a_pause_the_next_notification_starts_what_waits(notified: Notified) -> None:
    stage = notified.stage
    before = len(events_of(stage, ASSET))
    stage.airflow.api.pause(NAME)
    try:
        notified.put(5)
        stage.until(lambda: "is paused: unpause it" in notified.log, "the API server to say so")
        assert len(events_of(stage, ASSET)) == before
    finally:
        stage.airflow.api.unpause(NAME)
    notified.put(1)

    check_one_run_each(notified, list(notified.inbox.messages))


def test_the_api_server_answers_nothing_else_and_its_log_has_no_mac(notified: Notified) -> None:
    wrong = notified.url[:-1] + ("A" if notified.url[-1] != "A" else "B")

    assert [requests.post(each, timeout=60).status_code for each in (wrong, f"{wrong}/")] == [404, 404]
    assert requests.get(notified.url, timeout=60).status_code == 200
    assert f"/workflow/notify/workflow_default/{NAME}/hidden" in notified.log
    assert notified.url.rpartition("/")[2] not in notified.log
