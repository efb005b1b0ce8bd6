"""The recommended event-driven recipe: notices of available messages, and a DAG of one task."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.e2e.stage import Inbox
from tests.e2e.watching import (
    Account,
    account,
    dag_file,
    events_of,
    kill_triggerer,
    pause,
    restart_triggerer,
    table,
)

DAG_FILE = """
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


@pytest.fixture
def watched(stage, dags_folder, inbox):
    """An inbox with a watcher, and a DAG of its name that starts the runs of its messages."""
    with dag_file(stage, dags_folder, inbox.name, DAG_FILE.format(name=inbox.name), inbox.name, "target"):
        yield inbox


def put(inbox, count) -> list[str]:
    return inbox.put(*[{"n": n} for n in range(count)])


def check(stage, inbox, ids) -> None:
    """Every message has exactly one run, which succeeds, though nothing was put to shake it loose."""
    stage.until(inbox.all_acknowledged, "the last message to be acknowledged")
    stage.wait_until_succeeded(inbox, ids)
    found = account(stage, inbox, ids, inbox.name)
    print(table({inbox.name: found}))
    assert found == Account(len(ids), found.events, len(ids), len(ids), lost=0, duplicates=0)


def ring_for(stage, inbox, count) -> list[str]:
    """Put messages, and wait until Airflow has stored an event for them."""
    before = len(events_of(stage, inbox.name))
    ids = put(inbox, count)
    stage.until(lambda: len(events_of(stage, inbox.name)) > before, "the asset event")
    return ids


def listened_to(stage, inbox) -> bool:
    """Whether anybody has the event stream of an inbox open."""
    return any(each.inbox_id == inbox.id for each in list(stage.emulator.emulator.streams.open))


@contextmanager
def no_parsing(stage):
    """Airflow takes away the watcher of a DAG that is paused where it parses the file meanwhile."""
    stage.airflow.kill("dag-processor", tree=True)
    try:
        yield
    finally:
        stage.airflow.restart("dag-processor")
        stage.airflow.wait_until_healthy()


def test_bursts_of_two_hundred_messages_start_two_hundred_runs(stage, dags_folder, watched):
    api, name = stage.airflow.api, watched.name
    ids = []
    for size in (1, 20, 9, 20):
        ids += put(watched, size)
        stage.until(watched.all_acknowledged, f"the burst of {size} to be acknowledged")

    with no_parsing(stage):
        api.pause(name)
        ids += ring_for(stage, watched, 30)
        assert watched.counts["available"] == 30
        api.unpause(name)
        stage.until(watched.all_acknowledged, "what came, and was rung for, while the DAG was paused")

    pause(stage, dags_folder, name)
    stage.until(lambda: not listened_to(stage, watched), "the watcher to be taken away")
    ids += put(watched, 20)
    pause(stage, dags_folder, name, paused=False)
    stage.until(watched.all_acknowledged, "what came while there was no watcher")

    watched.fault("hold", "ack")
    ids += put(watched, 30)
    stage.until(watched.held, "the one active run to be slow")
    ids += ring_for(stage, watched, 20)
    ids += put(watched, 10)
    watched.release_held()
    stage.until(watched.all_acknowledged, "what came while the one active run was slow")

    kill_triggerer(stage)
    ids += put(watched, 40)
    restart_triggerer(stage)
    check(stage, watched, ids)


def test_notices_during_a_slow_run_do_not_queue_a_run_each(stage, watched):
    api, name = stage.airflow.api, watched.name
    watched.fault("hold", "ack")
    ids = put(watched, 1)
    stage.until(watched.held, "the one active run to be slow")
    for _ in range(4):
        ids += ring_for(stage, watched, 1)
    watched.release_held()
    check(stage, watched, ids)
    stage.until(
        lambda: all(run["state"] == "success" for run in api.dag_runs(name)), "no run to be waiting any more"
    )

    assert len(events_of(stage, name)) >= 5
    assert len(api.dag_runs(name)) <= 3, "the slow run, one for the notices meanwhile, one for a late notice"


def test_the_example_starts_one_run_for_each_message(stage):
    deliveries = Inbox.open(stage.emulator, "deliveries")
    stage.airflow.wait_for_dags(["dispatch_deliveries", "handle_delivery"])
    ids = put(deliveries, 3)
    stage.wait_until_succeeded(deliveries, ids, "handle_delivery")
    stage.until(deliveries.all_acknowledged, "the acknowledgement")
    assert deliveries.lease_counts == [1]
