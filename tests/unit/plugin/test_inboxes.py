"""What the page shows: inboxes and messages."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow import settings
from airflow.sdk import DAG, Asset, AssetWatcher, task
from fastapi.testclient import TestClient
from sqlalchemy import event

from airflow_provider_workflow import clock
from airflow_provider_workflow.airflow_internals import create_dag_run
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.dag_runs import MAX_CONF_BYTES, DatabaseRuns
from airflow_provider_workflow.dispatch.runs import KEY_PREFIX, run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.plugin import dead_letters, page
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.cli.database import Database, listening, listening_mapped
from tests.unit.cli.dead_letter_runs import INBOX_ID, PAYLOAD, DeadLetterRuns, start
from tests.unit.client.isolation import forget
from tests.unit.fake_clock import FakeClock
from tests.unit.plugin.conftest import API, PAGE, Service, error_of

BEGIN = datetime(2025, 1, 1)


def test_a_listener_is_found_whatever_it_is(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    inbox, database = connected_emulator.open_inbox("orders"), dead_letter_runs.database
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

    inbox_of_page, *_ = op.get(f"{API}/inboxes").json()["inboxes"]

    is_paused = {listener["dag_id"]: listener["is_paused"] for listener in inbox_of_page["listeners"]}
    assert is_paused == {"by_name": True, "by_id": False, "batches": False, "watched": False, "both": False}
    assert [listener["url"] for listener in inbox_of_page["listeners"]] == [
        f"/dags/{dag_id}" for dag_id in is_paused
    ]
    task_ids = {
        listener["dag_id"]: [task["task_id"] for task in listener["tasks"]]
        for listener in inbox_of_page["listeners"]
    }
    assert (task_ids["batches"], task_ids["watched"], task_ids["both"]) == (["work"], [], ["dispatch"])


def test_a_listener_has_its_tasks_with_their_dead_letter_dags(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    connected_emulator.open_inbox("orders")
    with DAG("listen", schedule=None, start_date=BEGIN) as dag:
        for task_id, dead in (("keeps", "dead"), ("loses", None)):
            names = {"inbox": "orders", "trigger_dag_id": "handle", "dead_letter_dag_id": dead}
            WorkflowInboxDispatchOperator(task_id=task_id, **names)
    dead_letter_runs.database.deploy(dag)

    (inbox_of_page,) = op.get(f"{API}/inboxes").json()["inboxes"]

    (listener,) = inbox_of_page["listeners"]
    assert listener["tasks"] == [
        {"task_id": "keeps", "dead_letter_dag_id": "dead"},
        {"task_id": "loses", "dead_letter_dag_id": None},
    ]


@pytest.mark.parametrize("by_name", [False, True])
def test_one_inbox_is_shown_as_a_list_of_one(
    op: TestClient, connected_emulator: EmulatorServer, by_name: bool
) -> None:
    connected_emulator.open_inbox("orders")
    inbox = connected_emulator.open_inbox("parcels")

    (entry,) = op.get(f"{API}/inboxes/{'parcels' if by_name else inbox}").json()["inboxes"]

    assert (entry["id"], entry["name"]) == (inbox, "parcels")
    missing = op.get(f"{API}/inboxes/{'nothing' if by_name else INBOX_ID}")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.usefixtures("database")
def test_a_name_leads_past_an_inbox_that_is_being_deleted(op: TestClient, answering_service: Service) -> None:
    old = {"id": INBOX_ID, "name": "orders", "status": "deleting"}
    new = {**old, "id": "new", "status": "active"}
    listing = {"results": [old, new], "next": None}
    answering_service.bodies = {"list": json.dumps(listing), "inbox": json.dumps(new)}

    (inbox,) = op.get(f"{API}/inboxes/orders").json()["inboxes"]

    assert inbox["id"] == "new"


def test_what_keeps_messages_from_their_runs_is_named_as_doctor_names_it(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    states = {
        "broken": ("initialization_failure", None),
        "by_user": ("paused", "user"),
        "orders": ("active", None),
    }
    ids = {name: connected_emulator.open_inbox(name) for name in ("paused", *states)}
    for name, (status, reason) in {"paused": ("paused", "abandoned"), **states}.items():
        connected_emulator.store.inboxes.force(ids[name], status, reason)
    listens = {"listen_paused": "paused", "listen_oders": "oders", "one": "orders", "two": ids["orders"]}
    for dag_id, name in listens.items():
        dead_letter_runs.database.deploy(listening(dag_id, inbox=name, trigger_dag_id="handle"))
    first = datetime(2026, 1, 1, tzinfo=UTC)
    for state, minutes in (("failed", 0), ("success", 10), ("failed", 20), ("failed", 30)):
        dead_letter_runs.database.add_run("listen_paused", state, first + timedelta(minutes=minutes))

    findings = op.get(f"{API}/inboxes").json()["findings"]

    resume = "no messages were leased for a long time: unpause its listener; then: press Resume on its page"
    paused = "paused (abandoned): new events are dropped"
    missing = "it listens to the inbox 'oders', which does not exist; did you mean 'orders'?"
    several = "one and two: each message goes to one of them"
    names = ("check", "status", "detail", "fix")
    assert [tuple(finding[name] for name in names) for finding in findings] == [
        ("inbox paused", "failed", paused, resume),
        ("inbox broken", "failed", "failed to initialize (no reason given)", "delete it and create it again"),
        (
            *("listener listen_oders", "failed", missing),
            "correct the name, or create it: airflow-workflow inbox ensure oders ...",
        ),
        (
            *("listeners of orders", "warning", several),
            "keep one listener, and route to several DAGs in it (trigger_dag_id)",
        ),
    ]
    assert [finding["inbox"] for finding in findings] == [ids["paused"], ids["broken"], None, ids["orders"]]
    assert [[dag["url"] for dag in finding["dags"]] for finding in findings] == [
        ["/dags/listen_paused"],
        [],
        ["/dags/listen_oders"],
        [],
    ]
    since = [finding["failing_since"] for finding in findings]
    assert since == ["2026-01-01T00:20:00+00:00", None, None, None]
    assert op.get(f"{API}/inboxes/by_user").json()["findings"] == []


@pytest.mark.parametrize(
    ("arguments", "check", "fix"),
    [
        ({"trigger_dag_id": "gone"}, "target gone", "deploy it, or correct trigger_dag_id of listen"),
        (
            {"trigger_dag_id": "handle", "dead_letter_dag_id": "gone"},
            *("dead-letter DAG gone", "deploy it, or correct dead_letter_dag_id of listen"),
        ),
    ],
)
def test_a_dag_that_a_listener_names_and_that_does_not_exist_is_named_as_doctor_names_it(
    op: TestClient,
    dead_letter_runs: DeadLetterRuns,
    connected_emulator: EmulatorServer,
    arguments: dict[str, str],
    check: str,
    fix: str,
) -> None:
    inbox, database = connected_emulator.open_inbox("orders"), dead_letter_runs.database
    database.deploy(listening("listen", inbox="orders", **arguments))
    database.deploy(listening("of_id", inbox=connected_emulator.open_inbox("parcels"), **arguments))
    database.change("handle", is_paused=True)
    database.add_run("listen", "failed", datetime(2026, 1, 1, tzinfo=UTC))

    expected = {
        "check": check,
        "status": "failed",
        "detail": "Airflow has no such DAG",
        "fix": fix,
        "inbox": inbox,
        "dags": [{"dag_id": "listen", "url": "/dags/listen"}],
        "failing_since": "2026-01-01T00:00:00+00:00",
    }
    for path in ("inboxes", "inboxes/orders"):
        assert op.get(f"{API}/{path}").json()["findings"] == [expected]


def test_an_inbox_that_does_not_exist_is_listed_with_the_dags_that_listen_to_it(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    connected_emulator.open_inbox("orders")
    dead_letter_runs.database.deploy(listening("listen", inbox="oders", trigger_dag_id="handle"))

    orders, missing = op.get(f"{API}/inboxes").json()["inboxes"]

    assert (missing["id"], missing["name"], missing["status"]) == (None, "oders", "missing")
    assert [listener["dag_id"] for listener in missing["listeners"]] == ["listen"]
    assert missing.keys() == orders.keys()


def test_the_last_run_of_a_listener_leads_to_the_log_of_the_task_that_failed(
    op: TestClient,
    dead_letter_runs: DeadLetterRuns,
    connected_emulator: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dag_runs, "MAX_QUERIES_OF_STATEMENT", 2)
    connected_emulator.open_inbox("orders")
    database, first = dead_letter_runs.database, datetime(2026, 1, 1, tzinfo=UTC)
    for dag_id in ("failing", "cured", "new"):
        database.deploy(listening(dag_id, inbox="orders", trigger_dag_id="handle"))
    with DAG("mapped", schedule=None, start_date=BEGIN) as mapped:
        of_inbox = WorkflowInboxDispatchOperator.partial(task_id="start", inbox="orders")
        of_inbox.expand(trigger_dag_id=["handle", "other"])
    database.deploy(mapped)
    for dag_id, states in {
        "failing": ("success", "failed"),
        "cured": ("failed", "success"),
        "mapped": ("failed",),
    }.items():
        for minute, state in enumerate(states):
            database.add_run(dag_id, state, first + timedelta(minutes=minute))
    start_by_hand("failing")

    (inbox,) = op.get(f"{API}/inboxes").json()["inboxes"]

    last = {listener["dag_id"]: listener["last_run"] for listener in inbox["listeners"]}
    assert last == {
        "failing": {
            "dag_id": "failing",
            "run_id": "ended_0001",
            "state": "failed",
            "url": "/dags/failing/runs/ended_0001/tasks/listen",
            "ended_at": "2026-01-01T00:01:00+00:00",
        },
        "cured": {
            "dag_id": "cured",
            "run_id": "ended_0001",
            "state": "success",
            "url": "/dags/cured/runs/ended_0001",
            "ended_at": "2026-01-01T00:01:00+00:00",
        },
        "new": None,
        "mapped": {
            "dag_id": "mapped",
            "run_id": "ended_0000",
            "state": "failed",
            "url": "/dags/mapped/runs/ended_0000/tasks/start/mapped/0",
            "ended_at": "2026-01-01T00:00:00+00:00",
        },
    }, "a run that has not ended does not hide that the last one failed"


def start_by_hand(dag_id: str) -> None:
    """Start a run that has not ended."""
    create_dag_run(dag_id, "running", {}, None, triggered_by="CLI", user=None)


@pytest.mark.parametrize(
    ("listener", "is_alone"),
    [
        (None, True),
        ({"inbox": "orders"}, False),
        ({"inbox": "parcels"}, True),
        ({"inbox": "{{ var.value.inbox }}"}, False),
        ({"inbox": "orders", "workflow_conn_id": "{{ var.value.conn }}"}, False),
        ({"inbox": "orders", "workflow_conn_id": "another"}, True),
    ],
)
def test_an_inbox_to_which_nothing_listens_says_so(
    op: TestClient,
    database: Database,
    connected_emulator: EmulatorServer,
    listener: dict[str, str] | None,
    is_alone: bool,
) -> None:
    for name in ("orders", "parcels"):
        connected_emulator.open_inbox(name)
    if listener is not None:
        database.deploy(listening("listen", trigger_dag_id="handle", **listener))

    orders, _ = op.get(f"{API}/inboxes").json()["inboxes"]

    text = (
        "no DAG of this Airflow listens to it: deploy a DAG with @inbox_dag, unless others lease its messages"
    )
    assert orders["no_listener"] == (text if is_alone else None)


def test_many_inboxes_cost_as_many_queries_as_one(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    """With queries for each inbox, a list of 500 would take seconds of the API server."""
    query_counts: list[int] = []
    statements: list[str] = []
    engine = settings.Session.session_factory.kw["bind"]  # of this test alone
    event.listen(engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    for number in range(6):
        name = f"inbox {number}"
        connected_emulator.open_inbox(name)
        dead_letter_runs.database.deploy(listening(f"listen_{number}", inbox=name, trigger_dag_id="handle"))
        forget()
        op.get(f"{API}/inboxes")  # reads the uses of inboxes, which are kept for a minute
        statements.clear()
        inboxes = op.get(f"{API}/inboxes").json()["inboxes"]
        query_counts.append(len(statements))

    one = op.get(f"{API}/inboxes/inbox 0").json()["inboxes"][0]
    assert [len(inbox_of_page["listeners"]) for inbox_of_page in [*inboxes, one]] == [1] * 7
    assert set(query_counts) == {query_counts[0]}
    assert query_counts[0] > 0


def test_a_list_counts_the_runs_of_the_last_hour_by_their_states(
    op: TestClient,
    dead_letter_runs: DeadLetterRuns,
    connected_emulator: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inboxes = [connected_emulator.open_inbox(name) for name in ("orders", "parcels", "alarms")]
    dead_letter_runs.backdate("handle", start("old", inboxes[0]), timedelta(minutes=61))
    for message_id in ("a", "b"):
        start(message_id, inboxes[0])
    dead_letter_runs.database.end_runs("handle")
    start("new", inboxes[0])
    start("other inbox", inboxes[1])
    dead_letter_runs.bury("dead", inbox_id=inboxes[0])
    dead_letter_runs.bury("of another connection", inbox_id=inboxes[0], connection_id="another")
    dead_letter_runs.forge("forged", user="bob", inbox_id=inboxes[0])

    def listed() -> dict[str, Any]:
        forget()
        return {inbox["name"]: inbox["runs"] for inbox in op.get(f"{API}/inboxes").json()["inboxes"]}

    orders = {"success": 2, "queued": 1, "dead_letter": 1}
    assert listed() == {"orders": orders, "parcels": {"queued": 1}, "alarms": {}}
    monkeypatch.setattr(page, "MAX_COUNTED_RUNS", 1)
    assert listed() == {"orders": {"dead_letter": 1}, "parcels": None, "alarms": None}


def test_a_list_has_the_summaries_that_are_known(op: TestClient, connected_emulator: EmulatorServer) -> None:
    inbox = connected_emulator.open_inbox("orders")

    def listed() -> Any:
        (inbox_of_page,) = op.get(f"{API}/inboxes").json()["inboxes"]
        return inbox_of_page["summary"]

    now = FakeClock(clock.monotonic())
    with clock.use(now):
        assert listed() is None
        summary = op.get(f"{API}/inboxes/{inbox}/summary").json()
        assert listed() == summary
        now.advance(10)
        assert listed() is None


def test_each_message_leads_to_its_run(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    inbox = connected_emulator.open_inbox("orders")
    connected_emulator.put("orders", *range(3), ids=["run", "dead", "new"])
    run_id, dead_id = start("run", inbox), dead_letter_runs.bury("dead", inbox_id=inbox)

    messages = op.get(f"{API}/inboxes/{inbox}/messages").json()["messages"]

    url = f"/dags/handle/runs/{run_id}"
    assert [message["run"] for message in messages] == [
        {"dag_id": "handle", "run_id": run_id, "state": "queued", "url": url}, None, None
    ]  # fmt: skip
    assert [message["dead_letter"] and message["dead_letter"]["run_id"] for message in messages] == [
        None,
        dead_id,
        None,
    ]
    assert (messages[0]["status"], messages[0]["delivery_count"]) == ("available", 0)


def test_a_message_whose_run_has_the_id_of_its_business_key_is_shown_once(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    inbox = connected_emulator.open_inbox("orders")
    connected_emulator.put("orders", 1, ids=["a"])
    conf = {"connection_id": "workflow_default", "inbox_id": inbox, "message": {"id": "a"}}
    DatabaseRuns().start(
        "handle", run_id := run_id_of(json.dumps(["payload.key", "K-1"]), inbox, KEY_PREFIX), conf, ""
    )
    dead_letter_runs.bury("a", inbox_id=inbox)

    def title_rows() -> list[tuple[str, str]]:
        messages = op.get(f"{API}/inboxes/{inbox}/messages").json()["messages"]
        return [(message["status"], message["run"]["run_id"]) for message in messages]

    assert title_rows() == [("available", run_id)]
    queue = connected_emulator.store.messages
    queue.acknowledge(inbox, queue.lease(inbox)["lease_id"])
    forget()
    assert title_rows() == [("started", run_id)], "beside its dead letter"


@pytest.mark.usefixtures("dead_letter_runs")
def test_messages_without_ids_and_times_are_shown_with_their_runs(
    op: TestClient, answering_service: Service
) -> None:
    messages = [{"id": None}, {}, {"id": "a"}]
    answering_service.bodies = {
        "messages": json.dumps({"results": messages, "next": None}),
        "inbox": json.dumps({"id": INBOX_ID, "status": "active"}),
    }
    run_id = start("a", INBOX_ID)

    messages_of_page = op.get(f"{API}/inboxes/{INBOX_ID}/messages").json()["messages"]

    assert [message["run"] and message["run"]["run_id"] for message in messages_of_page] == [
        None,
        None,
        run_id,
    ]


def test_messages_that_left_the_service_are_listed_with_their_runs(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    inbox = connected_emulator.open_inbox("orders")
    connected_emulator.put("orders", 1, ids=["waits"])
    dead_letter_runs.backdate("handle", start("long ago", inbox), timedelta(minutes=61))
    start("of another inbox", "another")
    dead_id = dead_letter_runs.bury("dead", PAYLOAD, inbox_id=inbox, cause="too large")
    dead_letter_runs.bury("replayed", inbox_id=inbox)
    replay_id, run_id = start("replayed", inbox), start("done", inbox)

    answer = op.get(f"{API}/inboxes/{inbox}/messages")

    assert PAYLOAD not in answer.text
    _, *messages = answer.json()["messages"]
    assert {message["id"]: message["status"] for message in messages} == {
        "dead": "dead-lettered",
        "replayed": "started",
        "done": "started",
    }
    done_message, replayed_message, dead = messages  # the newest first
    assert (done_message["run"]["run_id"], done_message["delivery_count"], done_message["error_message"]) == (
        run_id,
        3,
        None,
    )
    assert done_message["created_at"] == dead["created_at"] == "2026-01-01T00:00:00Z"
    assert (dead["run"], dead["dead_letter"]["run_id"]) == (None, dead_id)
    assert (dead["error_message"], dead["delivery_count"]) == ("too large", 3)
    assert replayed_message["run"]["run_id"] == replay_id


def test_the_messages_of_an_inbox_come_with_the_inbox_and_its_summary(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    """A browser that shows an inbox requests this alone, and the service lists the messages once for all."""
    assert dead_letter_runs
    inbox = connected_emulator.open_inbox("orders")
    connected_emulator.put("orders", 1, 2)

    with clock.use(FakeClock(clock.monotonic())):
        answer = op.get(f"{API}/inboxes/{inbox}/messages").json()
        counts = [connected_emulator.count(name) for name in ("list_messages", "get_inbox", "list_inboxes")]
        alone = op.get(f"{API}/inboxes/{inbox}").json()

    assert counts == [1, 1, 0]
    assert answer["inbox"] == alone
    (inbox_of_page,) = answer["inbox"]["inboxes"]
    assert inbox_of_page["summary"] == op.get(f"{API}/inboxes/{inbox}/summary").json()
    assert inbox_of_page["summary"]["counts"] == {"available": 2, "leased": 0, "quarantined": 0}
    assert inbox_of_page["summary"]["oldest_created_at"] == "2026-01-01T00:00:00Z"
    assert inbox_of_page["summary"]["is_partial"] is False
    assert connected_emulator.count("list_messages") == 1


@pytest.mark.usefixtures("fake_clock")
def test_further_pages_of_messages_have_the_messages_that_follow(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    assert dead_letter_runs
    inbox = connected_emulator.open_inbox("orders")
    ids = [f"m{number}" for number in range(502)]
    connected_emulator.put("orders", *ids, ids=ids)
    start("done", inbox)
    route = f"{API}/inboxes/{inbox}/messages"

    first = op.get(route).json()
    second = op.get(route, params={"cursor": first["next"]}).json()

    assert {message["id"] for message in first["messages"]} == {*ids[:500], "done"}
    assert [message["id"] for message in second["messages"]] == ids[500:]
    assert (second["next"], "inbox" in first, "inbox" in second) == (None, True, False)


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(("length", "lengths"), [(1_500, {1_500}), (2_500, set())])
def test_a_cursor_is_sent_as_a_whole_or_not_at_all(
    op: TestClient, answering_service: Service, length: int, lengths: set[int]
) -> None:
    page = {"results": [{"id": "a"}], "next": f"http://x/?cursor={length * 'c'}"}
    answering_service.bodies = {"messages": json.dumps(page)}

    op.get(f"{API}/inboxes/{INBOX_ID}/summary")

    cursors = re.findall(rb"cursor=([^& ]+)", b"".join(answering_service.requests))
    assert set(map(len, cursors)) == lengths


def test_messages_are_shown_without_their_inbox_if_only_that_cannot_be_read(
    op: TestClient, connected_emulator: EmulatorServer
) -> None:
    inbox = connected_emulator.open_inbox("orders")
    connected_emulator.put("orders", 1, ids=["a"])
    connected_emulator.fault("status", operation="get_inbox", status=500, times=None)

    answer = op.get(f"{API}/inboxes/{inbox}/messages").json()

    assert [message["id"] for message in answer["messages"]] == ["a"]
    assert "inbox" not in answer


def test_runs_with_a_large_conf_are_counted_and_their_confs_are_not_read(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    """A sender chooses how large the conf is that a view would read every 10 seconds."""
    inbox, large = connected_emulator.open_inbox("orders"), "x" * MAX_CONF_BYTES
    connected_emulator.put("orders", 1, ids=["waits"])
    start("small", inbox)
    run_id = start("waits", inbox, payload=large)
    start("left the service", inbox, payload=large)
    dead_letter_runs.bury("small and dead", inbox_id=inbox)
    dead_letter_runs.bury("large and dead", large, inbox_id=inbox)

    listing = op.get(f"{API}/inboxes").json()
    messages = op.get(f"{API}/inboxes/{inbox}/messages").json()
    letters = op.get(f"{API}/inboxes/{inbox}/dead-letters").json()

    assert listing["inboxes"][0]["runs"] == {"queued": 1, "dead_letter": 1}
    assert (listing["large_runs"], messages["inbox"]["large_runs"]) == (3, 3)
    assert {message["id"] for message in messages["messages"]} == {"waits", "small", "small and dead"}
    assert messages["messages"][0]["run"]["run_id"] == run_id, "its id says that it is the run of the message"
    assert [letter["message_id"] for letter in letters["dead_letters"]] == ["small and dead"]
    assert letters["large_runs"] == 1


NAMING = {"inbox": "orders", "dead_letter_dag_id": "other"}


@pytest.mark.parametrize(
    ("listener", "is_taken"),
    [
        (NAMING, True),
        ({**NAMING, "inbox": "the id"}, True),
        ({**NAMING, "inbox": "{{ var.value.inbox }}"}, True),
        ({**NAMING, "inbox": "parcels"}, False),
        ({**NAMING, "inbox": INBOX_ID}, False),
        ({**NAMING, "workflow_conn_id": "another"}, False),
        ({**NAMING, "dead_letter_dag_id": "{{ var.value.dead }}"}, False),
        ({**NAMING, "dead_letter_dag_id": None}, False),
    ],
)
def test_dead_letters_are_taken_only_from_dags_that_a_listener_of_the_inbox_names(
    op: TestClient,
    dead_letter_runs: DeadLetterRuns,
    connected_emulator: EmulatorServer,
    listener: dict[str, Any],
    is_taken: bool,
) -> None:
    """Any author of a DAG can start a run that looks like a dead letter, and others would replay it."""
    inbox, database = connected_emulator.open_inbox("orders"), dead_letter_runs.database
    database.add_dag("other")
    arguments = {**listener, "inbox": inbox if listener["inbox"] == "the id" else listener["inbox"]}
    database.deploy(listening("listen", trigger_dag_id="handle", **arguments))
    run_id = dead_letter_runs.bury("a", dag_id="other", inbox_id=inbox)

    answer = op.get(f"{API}/inboxes/{inbox}/dead-letters").json()
    fields = {"dag_id": "other", "run_id": run_id}
    response = op.post(f"{API}/inboxes/{inbox}/dead-letters/replay", json=fields, headers=PAGE)

    assert [letter["dag_id"] for letter in answer["dead_letters"]] == (["other"] if is_taken else [])
    assert answer["unnamed_dags"] == ([] if is_taken else [{"dag_id": "other"}])
    assert response.status_code == (200 if is_taken else 404)
    assert len(dead_letter_runs.replays()) == is_taken


@pytest.mark.parametrize(
    ("listener", "is_taken"),
    [
        ({"expanded": [{}], **NAMING}, False),
        ({"expanded": None, **NAMING}, True),
        ({"expanded": [{}], "default_args": {**NAMING, "workflow_conn_id": "another"}}, True),
    ],
)
def test_dead_letters_of_a_connection_are_taken_from_a_mapped_listener_that_may_be_of_it(
    op: TestClient,
    dead_letter_runs: DeadLetterRuns,
    connected_emulator: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
    listener: dict[str, Any],
    is_taken: bool,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ANOTHER", json.dumps(connected_emulator.connection()))
    inbox, database = connected_emulator.open_inbox("orders"), dead_letter_runs.database
    database.add_dag("other")
    database.deploy(listening_mapped("listen", trigger_dag_id="handle", **listener))
    dead_letter_runs.bury("a", dag_id="other", connection_id="another", inbox_id=inbox)

    answer = op.get(f"/workflow/api/connections/another/inboxes/{inbox}/dead-letters").json()

    assert [letter["dag_id"] for letter in answer["dead_letters"]] == (["other"] if is_taken else [])


def test_of_an_inbox_that_cannot_be_read_any_listener_of_the_connection_that_names_an_inbox_counts(
    op: TestClient, dead_letter_runs: DeadLetterRuns
) -> None:
    """Dead letters outlive their inbox, whose name nobody knows then."""
    dead_letter_runs.database.add_dag("other")
    dead_letter_runs.database.deploy(listening("listen", trigger_dag_id="handle", **NAMING))
    dead_letter_runs.bury("a", dag_id="other", inbox_id=INBOX_ID)

    answer = op.get(f"{API}/inboxes/{INBOX_ID}/dead-letters").json()

    assert [letter["message_id"] for letter in answer["dead_letters"]] == ["a"]


def test_the_dead_letters_of_all_inboxes_are_one_list(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    orders, parcels = map(connected_emulator.open_inbox, ("orders", "parcels"))
    database = dead_letter_runs.database
    for dag_id in ("other", "unknown"):
        database.add_dag(dag_id)
    database.deploy(listening("listen", trigger_dag_id="handle", **NAMING))
    dead_letter_runs.bury("a", inbox_id=orders, age=timedelta(hours=2))
    dead_letter_runs.bury("b", inbox_id=parcels, age=timedelta(hours=1))
    dead_letter_runs.bury("c", inbox_id=orders, dag_id="other")
    dead_letter_runs.bury("of a deleted inbox", inbox_id=INBOX_ID, age=timedelta(hours=3))
    dead_letter_runs.bury("of another connection", inbox_id=orders, connection_id="another")
    dead_letter_runs.bury("no listener of parcels names it", inbox_id=parcels, dag_id="other")
    dead_letter_runs.bury("no listener names it", inbox_id=orders, dag_id="unknown")
    replay_id = start("a", orders)

    answer = op.get(f"{API}/dead-letters").json()

    letters = answer["dead_letters"]
    assert [(letter["message_id"], letter["inbox_name"]) for letter in letters] == [
        ("c", "orders"),
        ("b", "parcels"),
        ("a", "orders"),
        ("of a deleted inbox", None),
    ]
    assert [letter["inbox_id"] for letter in letters] == [orders, parcels, orders, INBOX_ID]
    assert letters[2]["replayed"]["run_id"] == replay_id
    assert answer["unnamed_dags"] == [{"dag_id": "other"}, {"dag_id": "unknown"}]
    assert answer["is_partial"] is False


def test_a_list_of_dead_letters_says_that_there_are_more(
    op: TestClient, dead_letter_runs: DeadLetterRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "MAX_LISTED_DEAD_LETTERS", 2)
    for number in range(3):
        dead_letter_runs.bury(f"m{number}", age=timedelta(hours=number))

    answers = [
        op.get(f"{API}/{path}").json() for path in ("dead-letters", f"inboxes/{INBOX_ID}/dead-letters")
    ]

    for answer in answers:
        assert [letter["message_id"] for letter in answer["dead_letters"]] == ["m0", "m1"]
        assert answer["is_partial"] is True


def test_dead_letters_are_listed_with_their_replays_and_no_others_are_replayed(
    op: TestClient, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    inbox = connected_emulator.open_inbox("orders")
    dead_letter_runs.bury("a", PAYLOAD, inbox_id=inbox, age=timedelta(hours=1), cause="too large")
    dead_letter_runs.bury("b", inbox_id=inbox, target=None)
    other_run_ids = [
        dead_letter_runs.bury("c", inbox_id="another"),
        dead_letter_runs.bury("d", inbox_id=inbox, connection_id="another"),
        dead_letter_runs.forge("e", user="bob", inbox_id=inbox),
    ]
    replay_id = start("a", inbox)

    answer = op.get(f"{API}/inboxes/{inbox}/dead-letters")

    newest, oldest = answer.json()["dead_letters"]
    assert (newest["message_id"], newest["target_dag_id"], newest["replayed"]) == ("b", None, None)
    assert (oldest["reason"], oldest["cause"], oldest["delivery_count"]) == ("rejected", "too large", 3)
    assert oldest["replayed"]["run_id"] == replay_id
    assert oldest["started_by"] == "the command line"
    assert oldest["url"] == f"/dags/dead/runs/{oldest['run_id']}"
    assert (PAYLOAD in answer.text, answer.json()["is_partial"]) == (False, False)
    for run_id in other_run_ids:
        fields = {"dag_id": "dead", "run_id": run_id}
        response = op.post(f"{API}/inboxes/{inbox}/dead-letters/replay", json=fields, headers=PAGE)
        assert (response.status_code, error_of(response)) == (404, "not_found")
    assert set(dead_letter_runs.replays()) == {replay_id}
