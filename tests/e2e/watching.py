"""What the tests of asset watchers have in common: DAG files, kills, messages that come meanwhile."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from tests.e2e.stage import Inbox, Run, Stage

NOTICE_LISTENER = """
from datetime import timedelta

from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_workflow.assets import schedule_of
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

notices = WorkflowInboxNoticeTrigger({name!r}, renotify_seconds=5, poll_interval=1, max_poll_interval=4)
watched = Asset({name!r}, watchers=[AssetWatcher(name={name!r}, trigger=notices)])

with DAG({name!r}, schedule=schedule_of(watched), max_active_runs=1):
    WorkflowInboxDispatchOperator(
        task_id="work", inbox={name!r}, trigger_dag_id="target", retries=5, retry_delay=timedelta(seconds=1)
    )
"""
"""A listener of an inbox by notices, and a DAG of its name that starts the runs of its messages."""


def worked_on(stage: Stage, dag_id: str) -> list[str]:
    """Ids of the messages that successful runs of a DAG were given."""
    api = stage.airflow.api
    run_ids = [run["dag_run_id"] for run in api.dag_runs(dag_id) if run["state"] == "success"]
    return sorted(message_id for run_id in run_ids for message_id in api.xcom(dag_id, run_id, "work") or [])


def failed_run(stage: Stage, dag_id: str) -> str | None:
    """The id of a run of a DAG that has failed; None before there is one."""
    run_ids = [run["dag_run_id"] for run in stage.airflow.api.dag_runs(dag_id) if run["state"] == "failed"]
    return run_ids[0] if run_ids else None


def expire_what_was_not_handed_over(inbox: Inbox, run: Run) -> None:
    """End the lease of a triggerer that is gone, unless its event arrived and a task works on it."""
    if run.task["state"] == "deferred":
        inbox.expire_leases()


@contextmanager
def dag_file(stage: Stage, folder: Path, name: str, text: str, *dag_ids: str) -> Iterator[None]:
    """
    Add a DAG file for as long as a test takes: watchers know their inbox when the file is parsed.

    :param folder: the fixture ``dags_folder``.
    :param name: of the file, without its ending.
    :param dag_ids: the DAGs in it, which are waited for.
    """
    path = folder / f"{name}.py"
    path.write_text(text)
    try:
        stage.airflow.wait_for_dags(dag_ids)
        yield
    finally:
        path.unlink()


def pause(stage: Stage, folder: Path, name: str, *, paused: bool = True) -> None:
    """
    Pause the DAG of a file that a test added, or unpause it, and have the file parsed at once.

    Only where the file is parsed, Airflow takes away the watcher of a DAG that is paused, or brings it back.
    """
    change = stage.airflow.api.pause if paused else stage.airflow.api.unpause
    change(name)
    (folder / f"{name}.py").touch()


def restart_triggerer(stage: Stage) -> None:
    stage.airflow.restart("triggerer")
    stage.airflow.wait_until_healthy()


@contextmanager
def publishing(inbox: Inbox, count: int, seed: int, longest_pause: float) -> Iterator[list[str]]:
    """
    Put messages beside whatever the test does: in groups of 1 to 9, with pauses between them.

    :param longest_pause: seconds between two groups at most.
    :return: the ids of the messages; they are all there when the context is left.
    """
    chance = random.Random(seed)
    ids: list[str] = []

    def publish() -> None:
        while len(ids) < count:
            size = min(chance.randint(1, 9), count - len(ids))
            ids.extend(inbox.put(*[{"n": len(ids) + n} for n in range(size)]))
            time.sleep(chance.uniform(0.0, longest_pause))

    thread = Thread(target=publish, name="publisher", daemon=True)
    thread.start()
    try:
        yield ids
    finally:
        thread.join()
