"""What the page shows of inboxes: their listeners, their numbers, and their last hour."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow import settings
from airflow.sdk import DAG, Asset, AssetWatcher, task
from fastapi.testclient import TestClient
from sqlalchemy import event

from airflow_provider_workflow import clock
from airflow_provider_workflow.database.runs import DatabaseRuns
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.plugin import recent
from airflow_provider_workflow.plugin.answers import KEPT_SECONDS
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.cli.burying import CONNECTION_ID, INBOX_ID, Burying, message_of
from tests.unit.cli.database import listening
from tests.unit.client.isolation import forget
from tests.unit.fake_clock import FakeClock
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

    found = {each["dag_id"]: (each["kinds"], each["is_paused"]) for each in listed["listeners"]}
    assert found == {
        "by_name": (["sensor"], True),
        "by_id": (["operator"], False),
        "batches": (["decorator"], False),
        "watched": (["watcher"], False),
        "both": (["operator", "watcher"], False),
    }
    assert [each["url"] for each in listed["listeners"]] == [f"/dags/{dag_id}" for dag_id in found]


def test_one_inbox_is_shown_as_a_list_of_one(op: TestClient, connected: EmulatorServer) -> None:
    connected.open_inbox("orders")
    inbox = connected.open_inbox("parcels")

    (listed,) = op.get(f"{API}/inboxes/{inbox}").json()["inboxes"]

    assert (listed["id"], listed["name"]) == (inbox, "parcels")
    assert connected.count("list_inboxes") == 0
    missing = op.get(f"{API}/inboxes/{INBOX_ID}")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")


def test_many_inboxes_cost_as_many_queries_as_one(
    op: TestClient, buried: Burying, connected: EmulatorServer
) -> None:
    """With queries for each inbox, a list of 500 would take seconds of the API server."""
    counted = []
    for number in range(6):
        name = f"inbox {number}"
        connected.open_inbox(name)
        buried.database.deploy(listening(f"listen_{number}", inbox=name, trigger_dag_id="handle"))
        forget()
        op.get(f"{API}/inboxes")  # reads the uses of inboxes, which are kept for a minute
        with queries() as found:
            listed = op.get(f"{API}/inboxes").json()["inboxes"]
        counted.append(len(found))

    assert [len(each["listeners"]) for each in listed] == [1] * 6
    assert set(counted) == {counted[0]}


@contextmanager
def queries() -> Iterator[list[str]]:
    """What is asked of the metadata database."""
    found: list[str] = []
    engine = settings.Session.session_factory.kw["bind"]

    def note(*given: Any) -> None:
        found.append(given[2])

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


def test_a_summary_counts_what_waits_and_what_happened(
    op: TestClient, buried: Burying, connected: EmulatorServer
) -> None:
    inbox = connected.open_inbox("orders")
    connected.put("orders", 1, 2)
    buried.backdate("handle", start("old", inbox), timedelta(minutes=58))
    start("other inbox", "another")
    start("new", inbox)
    buried.bury("dead", inbox_id=inbox)
    buried.bury("of another connection", inbox_id=inbox, connection_id="another")
    buried.forge("forged", user="bob", inbox_id=inbox)

    found = op.get(f"{API}/inboxes/{inbox}/summary").json()

    assert found["counts"] == {"available": 2, "leased": 0, "quarantined": 0}
    assert (found["oldest_created_at"], found["is_partial"]) == ("2026-01-01T00:00:00Z", False)
    assert len(found["history"]) == 12
    assert [each["started"] for each in found["history"]] == [1, *[0] * 10, 1]
    assert [each["dead_lettered"] for each in found["history"]] == [*[0] * 11, 1]


def test_a_list_has_the_summaries_that_are_known(op: TestClient, connected: EmulatorServer) -> None:
    inbox = connected.open_inbox("orders")

    def listed() -> Any:
        (found,) = op.get(f"{API}/inboxes").json()["inboxes"]
        return found["summary"]

    now = FakeClock(clock.monotonic())
    with clock.use(now):
        assert listed() is None
        summary = op.get(f"{API}/inboxes/{inbox}/summary").json()
        now.advance(29)
        assert [listed(), listed()] == [summary, summary]
        now.advance(1)
        assert [listed(), listed()] == [None, summary], "only one browser is to request a newer one"


def test_a_history_counts_when_messages_arrived(buried: Burying) -> None:
    conf = {"connection_id": CONNECTION_ID, "inbox_id": "i", "message": message_of("a")}
    conf["message"]["created_at"] = (datetime.now(UTC) - timedelta(minutes=12)).isoformat()
    DatabaseRuns().start("handle", run_id_of("a", "i"), conf)

    assert [each["arrived"] for each in recent.history(CONNECTION_ID, "i")] == [*[0] * 9, 1, 0, 0]


def test_a_replayed_dead_letter_arrived_once(buried: Burying) -> None:
    conf = {"connection_id": CONNECTION_ID, "inbox_id": "i", "message": message_of("a")}
    conf["message"]["created_at"] = datetime.now(UTC).isoformat()
    DatabaseRuns().start("handle", run_id_of("a", "i"), conf)
    buried.bury("a", inbox_id="i", created_at=conf["message"]["created_at"])

    *_, now = recent.history(CONNECTION_ID, "i")

    assert (now["arrived"], now["started"], now["dead_lettered"]) == (1, 1, 1)


def test_where_the_service_is_away_the_last_numbers_are_shown_with_their_age(
    op: TestClient, connected: EmulatorServer
) -> None:
    inbox = connected.open_inbox("orders")
    connected.put("orders", 1)
    path = f"{API}/inboxes/{inbox}/summary"
    before = op.get(path).json()
    connected.fault("status", operation="list_messages", status=500, times=None)
    with clock.use(FakeClock(clock.monotonic() + KEPT_SECONDS)):
        after = op.get(path)

    assert after.status_code == 200
    assert after.json()["error"]["code"] == "service_error"
    assert (after.json()["counts"], after.json()["counted_at"]) == (before["counts"], before["fetched_at"])
