"""Callbacks in a real Airflow: notifiers that read connections, in the triggerer and in a task."""

from __future__ import annotations

import json

import pytest

from tests.e2e.watching import dag_file

TEXT = "{{ workflow.event }}: {{ workflow.messages | map(attribute='id') | join(' ') }}"
WATCHER = """
from airflow.sdk import DAG, AssetWatcher
from airflow.sdk.definitions.deadline import AsyncCallback

from airflow_provider_workflow.assets import create_asset
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

callbacks = [
    AsyncCallback(f"tests.e2e.notifiers.{{name}}", kwargs={{"path": {path!r}, "text": {text!r}}})
    for name in ("FileNotifier", "AsyncFileNotifier")
]
trigger = WorkflowInboxNoticeTrigger({name!r}, poll_interval=1, max_poll_interval=4, on_quarantined=callbacks)
watched = create_asset(inbox={name!r}, watchers=[AssetWatcher(name={name!r}, trigger=trigger)])

with DAG({name!r}, schedule=[watched]):
    pass
"""
LISTENER = """
from airflow.sdk import DAG

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.e2e.notifiers import FileNotifier

notifier = FileNotifier(path={path!r}, text={text!r} + " {{{{ dag_run.dag_id }}}}")

with DAG({name!r}):
    WorkflowInboxSensor(
        task_id="work",
        inbox={name!r},
        trigger_dag_id="target",
        dead_letter_dag_id="greet",
        deferrable=True,
        poll_interval=1,
        max_poll_interval=2,
        on_quarantined=notifier,
    )
"""


@pytest.fixture
def alerts(tmp_path):
    """A file into which notifiers write, and what is in it."""
    path = tmp_path / "alerts"

    def read() -> list[dict]:
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return path, read


def quarantine(inbox, *ids: str) -> None:
    """Let messages arrive, and expire as often as the service permits."""
    inbox.put(*ids, ids=list(ids), announce=False)
    for _ in range(5):
        inbox.emulator.store.leases.lease(inbox.id, 60, 100)
        inbox.expire_leases()
    assert {inbox.messages[each]["status"] for each in ids} == {"quarantined"}


# Before the test with a watcher: SQLite gives the id of a deleted one to the next trigger, which Airflow
# does not start if the watcher has not ended yet.
def test_a_sensor_that_waits_is_resumed_to_call_its_notifier(stage, dags_folder, inbox, alerts) -> None:
    path, read = alerts
    text = LISTENER.format(name=inbox.name, path=str(path), text=TEXT)
    with dag_file(stage, dags_folder, inbox.name, text, inbox.name):
        quarantine(inbox, "a")
        # The task does not find it at first, so its trigger does.
        inbox.fault("status", "list_messages", status=503, times=1)
        run = stage.start(inbox.name, inbox)
        stage.until(read, "the callback")
        assert len(inbox.requests("list_messages")) == 3
        run.reaches("deferred")
        inbox.put("an order")
        run.succeeds()

    assert [each["text"] for each in read()] == [f"quarantined: a {inbox.name}"]


def test_the_triggerer_calls_both_kinds_of_notifiers_once(stage, dags_folder, inbox, alerts) -> None:
    path, read = alerts
    quarantine(inbox, "a", "b")
    text = WATCHER.format(name=inbox.name, path=str(path), text=TEXT)
    with dag_file(stage, dags_folder, inbox.name, text, inbox.name):
        stage.until(lambda: len(read()) == 2, "both callbacks")
        quarantine(inbox, "c")
        stage.until(lambda: len(read()) == 4, "both callbacks for the next message")

    said = [(each["how"], each["main"], each["text"], each["connection"]) for each in read()]
    assert said == [
        (how, main, f"quarantined: {ids}", "workflow")
        for ids in ("a b", "c")
        for how, main in (("notify", False), ("async_notify", True))
    ]
