"""What the page shows: inboxes and messages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task
from fastapi.testclient import TestClient

from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.cli.burying import Burying
from tests.unit.cli.database import listening
from tests.unit.plugin.conftest import API
from tests.unit.plugin.started import start

BEGIN = datetime(2025, 1, 1)


def test_a_listener_is_found_whatever_it_is(
    op: TestClient, buried: Burying, connected: EmulatorServer
) -> None:
    inbox, database = connected.open_inbox("orders"), buried.database
    database.deploy(listening("by_name", inbox="orders", trigger_dag_id="handle"), is_paused=True)
    database.deploy(listening("elsewhere", inbox="orders", trigger_dag_id="handle", workflow_conn_id="other"))
    database.deploy(listening("other_inbox", inbox="others", trigger_dag_id="handle"))
    with DAG("by_id", schedule=None, start_date=BEGIN) as dispatching:
        WorkflowInboxDispatchOperator(task_id="dispatch", inbox=inbox, trigger_dag_id="handle")
    database.deploy(dispatching)
    with DAG("batches", schedule=None, start_date=BEGIN) as batches:

        @task.workflow_inbox(inbox="orders")
        def work(messages: list[Any]) -> None: ...

        work()
    database.deploy(batches)
    watcher = AssetWatcher(name="watch", trigger=WorkflowInboxNoticeTrigger(inbox="orders"))
    database.deploy(DAG("watched", schedule=[Asset("orders", watchers=[watcher])], start_date=BEGIN))
    with DAG("both", schedule=[Asset("more", watchers=[watcher])], start_date=BEGIN) as both:
        WorkflowInboxDispatchOperator(task_id="dispatch", inbox="orders", trigger_dag_id="handle")
    database.deploy(both)

    (listed,) = op.get(f"{API}/inboxes").json()["inboxes"]

    found = {each["dag_id"]: each["is_paused"] for each in listed["listeners"]}
    assert found == {"by_name": True, "by_id": False, "batches": False, "watched": False, "both": False}
    assert [each["url"] for each in listed["listeners"]] == [f"/dags/{dag_id}" for dag_id in found]


def test_a_message_is_listed_once_while_it_is_acknowledged(
    op: TestClient, buried: Burying, connected: EmulatorServer
) -> None:
    assert buried
    inbox = connected.open_inbox("orders")
    connected.put("orders", 1, ids=["a"])
    start("a", inbox)

    (listed,) = op.get(f"{API}/inboxes/{inbox}/messages").json()["messages"]

    assert (listed["status"], listed["run"]["dag_id"]) == ("available", "handle")


def test_messages_are_shown_without_their_inbox_if_only_that_cannot_be_read(
    op: TestClient, connected: EmulatorServer
) -> None:
    inbox = connected.open_inbox("orders")
    connected.put("orders", 1, ids=["a"])
    connected.fault("status", operation="get_inbox", status=500, times=None)

    answer = op.get(f"{API}/inboxes/{inbox}/messages").json()

    assert [each["id"] for each in answer["messages"]] == ["a"]
    assert "inbox" not in answer
