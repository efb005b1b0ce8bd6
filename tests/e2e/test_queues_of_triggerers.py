"""Watchers and sensors with a queue run in the triggerer that serves it, beside one that serves none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.e2e.conftest import ROOT, SETTINGS
from tests.e2e.places import rows_of_query
from tests.e2e.stage import Inbox, Stage
from tests.e2e.watching import worked_on
from tools.local_airflow import LocalAirflow

DAGS_FOLDER = Path(__file__).parent / "queued"
WATCHING = ("dispatch_noticed", "first", "second", "unqueued")
SENSING = ("target", "sensor_of_b", "sensor_of_default")
INBOXES = ("noticed", "shared", "unqueued", "sensed_of_b", "sensed_of_default")
WATCHERS = """
    SELECT asset.name, trigger.id, trigger.queue, trigger.triggerer_id
    FROM asset JOIN asset_watcher ON asset_watcher.asset_id = asset.id
    JOIN trigger ON trigger.id = asset_watcher.trigger_id
"""
TRIGGERERS = "SELECT id FROM job WHERE job_type = 'TriggererJob' ORDER BY id"

pytestmark = pytest.mark.since(3, 4, "queues of triggerers for watchers")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """An Airflow with queues of triggerers, whose one triggerer serves none."""
    settings = SETTINGS | {"AIRFLOW__TRIGGERER__QUEUES_ENABLED": "True", "PYTHONPATH": os.fspath(ROOT)}
    with EmulatorServer() as emulator:
        for name in INBOXES:
            emulator.open_inbox(name)
        connections = {"workflow_default": emulator.connection_json()}
        home = tmp_path_factory.mktemp("queues")
        with LocalAirflow(home, DAGS_FOLDER, connections, settings) as airflow:
            airflow.wait_for_dags((*WATCHING, *SENSING))
            yield Stage(airflow, emulator)


def newest_triggerer(stage: Stage) -> int:
    return rows_of_query(stage.airflow, TRIGGERERS)[-1][0]


def start_triggerer(stage: Stage, queue: str) -> None:
    """Start another triggerer, which serves this queue alone."""
    stage.airflow.start_process(f"triggerer-{queue}", ["triggerer", "--skip-serve-logs", "--queues", queue])


def watchers(stage: Stage) -> dict[str, tuple[str | None, int | None]]:
    """The queue of the watcher of each asset, and the triggerer that runs it."""
    return {name: (queue, triggerer) for name, _, queue, triggerer in rows_of_query(stage.airflow, WATCHERS)}


def test_a_watcher_with_a_queue_runs_only_in_the_triggerer_that_serves_it(stage):
    watched_inbox, shared, unqueued = (Inbox.open(stage.emulator, name) for name in INBOXES[:3])
    ids = {
        inbox: sorted(inbox.put({"n": 1}, {"n": 2}, {"n": 3})) for inbox in (watched_inbox, shared, unqueued)
    }
    stage.until(lambda: worked_on(stage, "unqueued") == ids[unqueued], "the watcher without a queue")
    without = watchers(stage)["unqueued"]
    of_a = ("noticed", "first", "second")
    assert without[0] is None
    assert watchers(stage) == {"unqueued": without, **dict.fromkeys(of_a, ("a", None))}

    start_triggerer(stage, "a")
    stage.wait_until_succeeded(watched_inbox, ids[watched_inbox])
    for dag_id in ("first", "second"):
        stage.until(lambda dag_id=dag_id: worked_on(stage, dag_id) == ids[shared], f"the runs of {dag_id}")
    stage.until(
        lambda: watched_inbox.all_acknowledged() and shared.all_acknowledged(), "the acknowledgements"
    )
    assert watchers(stage) == {"unqueued": without, **dict.fromkeys(of_a, ("a", newest_triggerer(stage)))}
    triggers = {name: trigger for name, trigger, *_ in rows_of_query(stage.airflow, WATCHERS)}
    assert triggers["first"] == triggers["second"]
    assert watched_inbox.lease_counts == shared.lease_counts == [1]


def test_a_deferred_sensor_waits_in_the_triggerer_that_serves_the_queue_of_its_task(stage):
    sensed, unserved = (Inbox.open(stage.emulator, name) for name in INBOXES[3:])
    run, other_run = stage.start("sensor_of_b", sensed), stage.start("sensor_of_default", unserved)
    run.reaches("deferred")
    other_run.reaches("deferred")
    start_triggerer(stage, "b")
    unserved.put({"n": 1})
    ids = sensed.put({"n": 1})

    stage.wait_until_succeeded(sensed, ids)
    assert rows_of_query(stage.airflow, "SELECT triggerer_id FROM trigger WHERE queue = 'default'") == [
        (None,)
    ]
    assert other_run.task["state"] == "deferred"
