"""What the page shows: inboxes and their listeners, numbers, messages with their runs, dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow import settings
from airflow.models.connection import Connection
from airflow.sdk import DAG, Asset, AssetWatcher, task
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import event

from airflow_provider_workflow import __version__, clock
from airflow_provider_workflow.database.runs import DatabaseRuns
from airflow_provider_workflow.dispatch.dead_letters import RUN_PREFIX, Reason, conf_of
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.plugin import inboxes, recent
from airflow_provider_workflow.plugin.access import Reader
from airflow_provider_workflow.plugin.answers import KEPT_SECONDS
from airflow_provider_workflow.plugin.app import Modules
from airflow_provider_workflow.plugin.listeners import Listeners
from airflow_provider_workflow.plugin.messages import view as message_view
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.cli.burying import INBOX_ID, Burying, message_of
from tests.unit.cli.database import listening
from tests.unit.client.isolation import forget
from tests.unit.fake_clock import FakeClock
from tests.unit.plugin.conftest import API

NAME = '<script>alert("1")</script> Grüße \'"&'
PAYLOAD = "the payload of a message"
BEGIN = datetime(2025, 1, 1)


def start(message_id: str, inbox_id: str, note: str | None = None) -> str:
    """Start the run of a message, as the dispatcher does."""
    run_id = run_id_of(message_id, inbox_id)
    conf = {"inbox_id": inbox_id, "message": message_of(message_id, {"text": PAYLOAD})}
    DatabaseRuns().start("handle", run_id, conf, note)
    return run_id


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


def test_fields_of_the_service_that_are_no_strings_are_left_out() -> None:
    inbox: Any = {"id": "a", "status": "active", "name": {"dangerouslySetInnerHTML": {"__html": "x"}}}
    message: Any = {"id": ["a"], "status": {"a": 1}, "created_at": "0001-01-01T00:00:00+14:00"}

    shown = inboxes.view(inbox, cast(Listeners, SimpleNamespace(of=lambda *_: [])))
    listed = message_view(message, "a", {}, cast(Reader, SimpleNamespace(run=lambda *_: None)))

    assert (shown["id"], shown["name"]) == ("a", None)
    assert (listed["id"], listed["status"], listed["created_at"]) == (None, None, None)


@pytest.mark.parametrize("count", ["²", "9" * 5000, "-1", "x"])
@pytest.mark.usefixtures("buried")
def test_a_run_with_any_conf_breaks_nothing(op: TestClient, connected: EmulatorServer, count: str) -> None:
    inbox = connected.open_inbox("orders")
    odd = {"id": "a", "created_at": "9999-12-31T23:59:59-14:00", "message_attributes": {"lease_count": count}}
    DatabaseRuns().start("handle", run_id_of("a", inbox), {"inbox_id": inbox, "message": odd})
    run_id = run_id_of("b", inbox, RUN_PREFIX)
    letter = conf_of(message_of("b"), inbox, "handle", Reason.REJECTED, "a made-up cause")
    DatabaseRuns().start("dead", run_id, {**letter, "delivery_count": count})

    (shown,) = op.get(f"{API}/inboxes/{inbox}/dead-letters").json()["dead_letters"]
    found = op.get(f"{API}/inboxes/{inbox}/messages").json()["messages"]
    of_run = op.get(f"/workflow/api/dags/handle/runs/{run_id_of('a', inbox)}/message").json()["message"]

    assert (shown["run_id"], shown["delivery_count"]) == (run_id, None)
    assert {each["id"]: each["delivery_count"] for each in found} == {"a": 0, "b": 0}
    assert (of_run["delivery_count"], of_run["created_at"]) == (None, None)
    assert op.get(f"{API}/inboxes/{inbox}/summary").status_code == 200


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


def test_names_and_errors_stay_text(op: TestClient, connected: EmulatorServer) -> None:
    inbox = connected.open_inbox(NAME)
    text = f"{NAME}\nforged line"
    connected.put(NAME, {"text": PAYLOAD}, ids=["a"], attributes={"error_message": text})

    listed, messages = op.get(f"{API}/inboxes"), op.get(f"{API}/inboxes/{inbox}/messages")

    assert listed.json()["inboxes"][0]["name"] == NAME
    assert messages.json()["messages"][0]["error_message"] == f"{NAME} forged line"
    for answer in (listed, messages):
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert PAYLOAD not in answer.text
        assert connected.client_secret not in answer.text


def test_half_a_surrogate_pair_breaks_no_answer(op: TestClient, connected: EmulatorServer) -> None:
    """A service that cuts strings may send it in JSON, and UTF-8 cannot encode it."""
    connected.open_inbox("cut \ud83d")

    answer = op.get(f"{API}/inboxes")

    assert (answer.status_code, answer.json()["inboxes"][0]["name"]) == (200, "cut \ud83d")


def test_each_message_leads_to_its_run(op: TestClient, buried: Burying, connected: EmulatorServer) -> None:
    inbox = connected.open_inbox("orders")
    connected.put("orders", *range(3), ids=["run", "dead", "new"])
    run_id, dead_id = start("run", inbox), buried.bury("dead", inbox_id=inbox)

    messages = op.get(f"{API}/inboxes/{inbox}/messages").json()["messages"]

    url = f"/dags/handle/runs/{run_id}"
    assert [each["run"] for each in messages] == [
        {"dag_id": "handle", "run_id": run_id, "state": "queued", "url": url}, None, None
    ]  # fmt: skip
    assert [each["dead_letter"] and each["dead_letter"]["run_id"] for each in messages] == [
        None,
        dead_id,
        None,
    ]
    assert (messages[0]["status"], messages[0]["delivery_count"]) == ("available", 0)


def test_messages_that_left_the_service_are_listed_with_their_runs(
    op: TestClient, buried: Burying, connected: EmulatorServer
) -> None:
    inbox = connected.open_inbox("orders")
    connected.put("orders", 1, ids=["waits"])
    buried.backdate("handle", start("long ago", inbox), timedelta(minutes=61))
    start("of another inbox", "another")
    dead_id = buried.bury("dead", PAYLOAD, inbox_id=inbox, cause="too large")
    buried.bury("replayed", inbox_id=inbox)
    replay_id, run_id = start("replayed", inbox), start("done", inbox)

    answer = op.get(f"{API}/inboxes/{inbox}/messages")

    assert PAYLOAD not in answer.text
    _, *left = answer.json()["messages"]
    assert {each["id"]: each["status"] for each in left} == {
        "dead": "dead-lettered",
        "replayed": "started",
        "done": "started",
    }
    done, replayed, dead = left  # the newest first
    assert (done["run"]["run_id"], done["delivery_count"], done["error_message"]) == (run_id, 3, None)
    assert done["created_at"] == dead["created_at"] == "2026-01-01T00:00:00Z"
    assert (dead["run"], dead["dead_letter"]["run_id"]) == (None, dead_id)
    assert (dead["error_message"], dead["delivery_count"]) == ("too large", 3)
    assert replayed["run"]["run_id"] == replay_id


def test_a_message_is_listed_once_while_it_is_acknowledged(
    op: TestClient, buried: Burying, connected: EmulatorServer
) -> None:
    assert buried
    inbox = connected.open_inbox("orders")
    connected.put("orders", 1, ids=["a"])
    start("a", inbox)

    (listed,) = op.get(f"{API}/inboxes/{inbox}/messages").json()["messages"]

    assert (listed["status"], listed["run"]["dag_id"]) == ("available", "handle")


def test_a_summary_counts_what_waits_and_what_happened(
    op: TestClient, buried: Burying, connected: EmulatorServer
) -> None:
    inbox = connected.open_inbox("orders")
    connected.put("orders", 1, 2)
    buried.backdate("handle", start("old", inbox), timedelta(minutes=58))
    start("other inbox", "another")
    start("new", inbox)
    buried.bury("dead", inbox_id=inbox)

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


def test_the_messages_of_an_inbox_come_with_the_inbox_and_its_summary(
    op: TestClient, buried: Burying, connected: EmulatorServer
) -> None:
    """A browser that shows an inbox requests this alone, and the service lists the messages once for all."""
    assert buried
    inbox = connected.open_inbox("orders")
    connected.put("orders", 1, 2)

    with clock.use(FakeClock(clock.monotonic())):
        answer = op.get(f"{API}/inboxes/{inbox}/messages").json()
        counts = [connected.count(name) for name in ("list_messages", "get_inbox", "list_inboxes")]
        alone = op.get(f"{API}/inboxes/{inbox}").json()

    assert counts == [1, 1, 0]
    assert answer["inbox"] == alone
    (shown,) = answer["inbox"]["inboxes"]
    assert shown["summary"] == op.get(f"{API}/inboxes/{inbox}/summary").json()
    assert shown["summary"]["counts"]["available"] == 2
    assert connected.count("list_messages") == 1


def test_further_pages_of_messages_have_the_messages_that_follow(
    op: TestClient, buried: Burying, connected: EmulatorServer
) -> None:
    assert buried
    inbox = connected.open_inbox("orders")
    ids = [f"m{number}" for number in range(502)]
    connected.put("orders", *ids, ids=ids)
    start("done", inbox)
    route = f"{API}/inboxes/{inbox}/messages"

    first = op.get(route).json()
    second = op.get(route, params={"cursor": first["next"]}).json()

    assert {each["id"] for each in first["messages"]} == {*ids[:500], "done"}
    assert [each["id"] for each in second["messages"]] == ids[500:]
    assert (second["next"], "inbox" in first, "inbox" in second) == (None, True, False)


def test_messages_are_shown_without_their_inbox_if_only_that_cannot_be_read(
    op: TestClient, connected: EmulatorServer
) -> None:
    inbox = connected.open_inbox("orders")
    connected.put("orders", 1, ids=["a"])
    connected.fault("status", operation="get_inbox", status=500, times=None)

    answer = op.get(f"{API}/inboxes/{inbox}/messages").json()

    assert [each["id"] for each in answer["messages"]] == ["a"]
    assert "inbox" not in answer


def test_a_history_counts_when_messages_arrived(buried: Burying) -> None:
    conf = {"inbox_id": "i", "message": message_of("a")}
    conf["message"]["created_at"] = (datetime.now(timezone.utc) - timedelta(minutes=12)).isoformat()
    DatabaseRuns().start("handle", run_id_of("a", "i"), conf)

    assert [each["arrived"] for each in recent.history("i")] == [*[0] * 9, 1, 0, 0]


def test_a_replayed_dead_letter_arrived_once(buried: Burying) -> None:
    conf = {"inbox_id": "i", "message": message_of("a")}
    conf["message"]["created_at"] = datetime.now(timezone.utc).isoformat()
    DatabaseRuns().start("handle", run_id_of("a", "i"), conf)
    buried.bury("a", inbox_id="i", created_at=conf["message"]["created_at"])

    *_, now = recent.history("i")

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
    assert (after.json()["counts"], after.json()["error"]["code"]) == (None, "service_error")
    assert after.json()["stored"] == {"counts": before["counts"], "at": before["fetched_at"]}


def test_dead_letters_are_listed_with_their_replays(
    op: TestClient, buried: Burying, connected: EmulatorServer
) -> None:
    inbox = connected.open_inbox("orders")
    buried.bury("a", PAYLOAD, inbox_id=inbox, age=timedelta(hours=1), cause="too large")
    buried.bury("b", inbox_id=inbox, target=None)
    buried.bury("c", inbox_id="another")
    replayed = start("a", inbox)

    answer = op.get(f"{API}/inboxes/{inbox}/dead-letters")

    newest, oldest = answer.json()["dead_letters"]
    assert (newest["message_id"], newest["target_dag_id"], newest["replayed"]) == ("b", None, None)
    assert (oldest["reason"], oldest["cause"], oldest["delivery_count"]) == ("rejected", "too large", 3)
    assert oldest["replayed"]["run_id"] == replayed
    assert oldest["url"] == f"/dags/dead/runs/{oldest['run_id']}"
    assert (PAYLOAD in answer.text, answer.json()["is_partial"]) == (False, False)


def message_of_run(op: TestClient, dag_id: str, run_id: str) -> Any:
    answer = op.get(f"/workflow/api/dags/{dag_id}/runs/{run_id}/message")
    assert PAYLOAD not in answer.text
    return answer.json()["message"]


def test_a_run_tells_its_message(op: TestClient, buried: Burying) -> None:
    buried.database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"))
    run_id = start("a", "i", "Message a of the inbox orders, started by the run scheduled__1 of listen")

    found = message_of_run(op, "handle", run_id)

    assert (found["kind"], found["message_id"], found["inbox_id"]) == ("message", "a", "i")
    assert (found["delivery_count"], found["created_at"]) == (3, "2026-01-01T00:00:00Z")
    assert found["connection_id"] == "workflow_default"


@pytest.mark.since(3, 2, "the note of a run that is started")
def test_the_note_of_a_run_tells_its_listener(op: TestClient, buried: Burying) -> None:
    run_id = start("a", "i", "Message a of the inbox my orders, started by the run scheduled__1 of listen")

    found = message_of_run(op, "handle", run_id)

    url = "/dags/listen/runs/scheduled__1"
    assert found["listener"] == {"dag_id": "listen", "run_id": "scheduled__1", "url": url}
    assert found["inbox"] == "my orders"


def test_a_dead_letter_and_another_run_are_told_apart(op: TestClient, buried: Burying) -> None:
    dead_id = buried.bury("a", PAYLOAD, cause="too large")
    DatabaseRuns().start("handle", "manual__1", {"inbox_id": "i"})

    found = message_of_run(op, "dead", dead_id)

    assert (found["kind"], found["reason"], found["cause"]) == ("dead_letter", "rejected", "too large")
    assert message_of_run(op, "handle", "manual__1") is None
    assert message_of_run(op, "handle", "workflow__unknown") is None


def test_connections_are_listed_from_database_and_environment(
    op: TestClient, buried: Burying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_B", '{"conn_type": "workflow"}')
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "http://host")
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", "{")
    add = buried.database.add_connection
    add(Connection(conn_id="workflow_a", conn_type="workflow", description="for tests"))
    add(Connection(conn_id="mail", conn_type="smtp"))

    found = op.get("/workflow/api/connections").json()

    ids = {each["connection_id"]: each["description"] for each in found["connections"]}
    assert ids == {"workflow_a": "for tests", "workflow_b": None, "workflow_default": None}
    assert found["default"] == "workflow_default"


def test_modules_are_kept_by_version_and_nothing_else_is_served(tmp_path: Path) -> None:
    (tmp_path / "inboxes.js").write_text("export {}")
    (tmp_path / "secret.py").write_text("")
    server = FastAPI()
    server.mount("/static", Modules(directory=tmp_path))
    client = TestClient(server)

    current = client.get(f"/static/inboxes.js?v={__version__}")
    other = client.get("/static/inboxes.js")

    assert current.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert "immutable" in current.headers["Cache-Control"]
    assert other.headers["Cache-Control"] == "no-cache"
    etag = other.headers["ETag"]
    assert client.get("/static/inboxes.js", headers={"If-None-Match": etag}).status_code == 304
    for path in ("secret.py", "missing.js", "..%2fsecret.js", ""):
        assert client.get(f"/static/{path}").status_code == 404
