"""The recommended event-driven recipe: notices of available messages, and a DAG of one task."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.e2e.stage import Run, Stage
from tests.e2e.watching import NOTICE_LISTENER, dag_file, failed_run, pause, restart_triggerer

ALARM_FILE = (
    NOTICE_LISTENER
    + """
from datetime import datetime

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

with DAG("{name}-wrong", schedule=schedule_of(wrong := Asset("{name}-wrong", watchers=[AssetWatcher(
    name="wrong", trigger=WorkflowInboxNoticeTrigger({name!r}, workflow_conn_id="workflow_wrong")
)]))):
    WorkflowInboxDispatchOperator(
        task_id="work", inbox={name!r}, workflow_conn_id="workflow_wrong", trigger_dag_id="target"
    )

with DAG("{name}-sensor", schedule="@continuous", max_active_runs=1, start_date=datetime(2025, 1, 1)):
    WorkflowInboxSensor(task_id="work", inbox={name!r}, trigger_dag_id="target", deferrable=True)
"""
)
"""Three listeners: by notices, by notices with a wrong client secret, and by a sensor."""


@pytest.fixture
def watched(stage, dags_folder, inbox):
    """An inbox with a watcher, and a DAG of its name that starts the runs of its messages."""
    name = inbox.name
    with dag_file(stage, dags_folder, name, NOTICE_LISTENER.format(name=name), name, "target"):
        yield inbox


@pytest.mark.nightly
def test_listeners_of_a_misspelt_inbox_and_with_a_wrong_secret_fail_once_with_the_fix(stage, dags_folder):
    name = "misspelt"
    listeners = (name, f"{name}-wrong", f"{name}-sensor")
    with dag_file(stage, dags_folder, name, ALARM_FILE.format(name=name), *listeners):
        missing, wrong, sensor = (first_failure(stage, dag_id) for dag_id in listeners)
        for log in (missing, sensor):
            assert f"inbox '{name}'" in log.lower()
        assert "correct its Client ID (login) and Client secret (password)" in wrong
        runs_of_sensor = stage.until(
            lambda: stage.airflow.api.dag_runs(f"{name}-sensor")[1:], "the run after the failed one"
        )
        next_run = Run(stage.airflow, f"{name}-sensor", runs_of_sensor[0]["dag_run_id"])
        assert next_run.reaches("deferred").task["try_number"] == 1


def first_failure(stage: Stage, dag_id: str) -> str:
    """Wait until a run of a DAG has failed; return the log of its task."""
    run_id = stage.until(lambda: failed_run(stage, dag_id), f"an alarm of {dag_id}")
    return Run(stage.airflow, dag_id, run_id).log()


def put(inbox, count) -> list[str]:
    return inbox.put(*[{"n": n} for n in range(count)])


def ring_for(stage, inbox, count) -> list[str]:
    """Put messages, and wait until Airflow has stored an event for them."""
    before = len(stage.airflow.api.asset_events(inbox.name))
    ids = put(inbox, count)
    stage.until(lambda: len(stage.airflow.api.asset_events(inbox.name)) > before, "the asset event")
    return ids


def listened_to(stage, inbox) -> bool:
    """Whether anybody has the event stream of an inbox open."""
    return any(stream.inbox_id == inbox.id for stream in list(stage.emulator.emulator.streams.open))


@contextmanager
def no_parsing(stage):
    """Airflow takes away the watcher of a DAG that is paused where it parses the file meanwhile."""
    stage.airflow.kill("dag-processor", tree=True)
    try:
        yield
    finally:
        stage.airflow.restart("dag-processor")
        stage.airflow.wait_until_healthy()


def test_every_message_has_one_run_whatever_happens_to_the_dag_and_to_its_watcher(
    stage, dags_folder, watched
):
    api, name = stage.airflow.api, watched.name
    ids = []
    for size in (1, 20, 9):
        ids += put(watched, size)
        stage.until(watched.all_acknowledged, f"the burst of {size} to be acknowledged")

    with no_parsing(stage):
        api.pause(name)
        ids += ring_for(stage, watched, 20)
        assert watched.counts["available"] == 20
        api.unpause(name)
        stage.until(watched.all_acknowledged, "what came, and was rung for, while the DAG was paused")

    pause(stage, dags_folder, name)
    stage.until(lambda: not listened_to(stage, watched), "the watcher to be taken away")
    ids += put(watched, 10)
    pause(stage, dags_folder, name, paused=False)
    stage.until(watched.all_acknowledged, "what came while there was no watcher")

    events, runs = len(api.asset_events(name)), len(api.dag_runs(name))
    watched.fault("hold", "ack")
    ids += put(watched, 20)
    stage.until(watched.held_requests, "the one active run to be slow")
    for _ in range(3):
        ids += ring_for(stage, watched, 5)
    watched.release_held()
    stage.until(watched.all_acknowledged, "what came while the one active run was slow")
    stage.until(lambda: {run["state"] for run in api.dag_runs(name)} == {"success"}, "no run to be waiting")
    assert len(api.asset_events(name)) >= events + 4
    # The slow run, one for the notices meanwhile, one for a late notice.
    assert len(api.dag_runs(name)) <= runs + 3, "notices during a slow run queue a run each"

    stage.airflow.kill("triggerer", tree=True)
    ids += put(watched, 20)
    restart_triggerer(stage)
    stage.until(watched.all_acknowledged, "what came while there was no triggerer, with nothing put after it")
    stage.wait_until_succeeded(watched, ids)
