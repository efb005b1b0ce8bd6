"""The app of the page: registration, routes, the service behind it, and what the page shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, AssetWatcher, task
from fastapi import FastAPI
from fastapi.testclient import TestClient

import airflow_provider_workflow
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.client.wire import Answer, Request
from airflow_provider_workflow.database.runs import DatabaseRuns
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.plugin import service
from airflow_provider_workflow.plugin.registration import WorkflowPlugin
from airflow_provider_workflow.plugin.responses import PageError
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger
from tests.unit.cli.burying import CONNECTION_ID, Burying, message_of
from tests.unit.cli.database import listening
from tests.unit.client.isolation import forget
from tests.unit.fake_clock import FakeClock
from tests.unit.plugin.conftest import API, error_of


def test_a_browser_asks_whether_a_module_has_changed_and_nothing_else_is_served(op: TestClient) -> None:
    module = op.get("/workflow/static/inboxes.js")

    assert module.headers["Content-Type"].startswith(("text/javascript", "application/javascript"))
    assert module.headers["Cache-Control"] == "no-cache"
    assert module.headers["X-Content-Type-Options"] == "nosniff"
    again = {"If-None-Match": module.headers["ETag"]}
    assert op.get("/workflow/static/inboxes.js", headers=again).status_code == 304
    for path in ("missing.js", "..%2fapp.py", ""):
        assert op.get(f"/workflow/static/{path}").status_code == 404


def test_an_error_that_nobody_expected_is_answered_without_its_text(
    op: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(service, "list_inboxes", fail)
    client = TestClient(op.app, cookies=op.cookies, raise_server_exceptions=False)

    answer = client.get(f"{API}/inboxes")

    assert (answer.status_code, error_of(answer)) == (500, "unexpected")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "secret" not in answer.text
    with pytest.raises(ZeroDivisionError):  # so that the API server logs it
        op.get(f"{API}/inboxes")


LOAD = """
import sys
sys.path.insert(0, sys.argv[1])
from airflow import plugins_manager

assert "fastapi" not in sys.modules
plugins_manager.ensure_plugins_loaded()
plugins_manager.integrate_macros_plugins()
assert "airflow_provider_workflow.plugin.registration" in sys.modules
print([name for name in ("fastapi", "airflow_provider_workflow.plugin.app") if name in sys.modules])
"""


@pytest.mark.slow
def test_a_process_that_serves_no_pages_imports_no_fastapi(tmp_path: Path) -> None:
    about = tmp_path / "plugin_of_a_test-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-a-test\nVersion: 1\n")
    entry = "workflow = airflow_provider_workflow.plugin.registration:WorkflowPlugin"
    (about / "entry_points.txt").write_text(f"[airflow.plugins]\n{entry}\n")

    command = [sys.executable, "-W", "ignore", "-c", LOAD, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("plugin", [WorkflowPlugin(), WorkflowPlugin], ids=["instance", "class"])
def test_an_application_and_a_page_are_registered(plugin: WorkflowPlugin) -> None:
    (app,) = plugin.fastapi_apps
    (page,) = plugin.react_apps

    assert (app["url_prefix"], type(app["app"])) == ("/workflow", FastAPI)
    assert (page["name"], page["destination"], page["url_route"]) == ("Inboxes", "nav", "workflow-inboxes")


@pytest.mark.parametrize("value", ["off", "False", "0", "of"])
def test_nothing_is_registered_when_the_page_is_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__WORKFLOW__PAGE", value)

    assert WorkflowPlugin().fastapi_apps == []
    assert WorkflowPlugin().react_apps == []


STATIC = Path(airflow_provider_workflow.__file__).parent / "plugin" / "static"
TESTS = Path(__file__).parents[2] / "page"
MOST_BYTES = 45_000
NODE = shutil.which("node")
OLDEST_NODE = (20, 19)
"""The first one that tells modules from scripts by their content."""


def node_version() -> tuple[int, ...]:
    """The version of node; empty without one."""
    if NODE is None:
        return ()
    done = subprocess.run([NODE, "--version"], capture_output=True, text=True, timeout=60, check=True)
    return tuple(map(int, re.findall(r"\d+", done.stdout)))


@pytest.mark.slow
@pytest.mark.skipif(node_version() < OLDEST_NODE, reason="needs node 20.19 or newer")
def test_the_logic_of_the_page_passes_its_own_tests():
    files = sorted(map(str, TESTS.glob("*.test.mjs")))
    command = [str(NODE), "--test", "--test-reporter=tap", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    counted = dict(re.findall(r"^# (tests|pass|fail) (\d+)$", done.stdout, re.MULTILINE))
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert files
    assert int(counted["tests"]) == int(counted["pass"]) > len(files)


def test_the_page_stays_small():
    sizes = {each.name: each.stat().st_size for each in STATIC.glob("*.js")}

    assert "inboxes.js" in sizes
    assert sum(sizes.values()) < MOST_BYTES, sizes


def test_each_module_that_is_imported_is_there():
    modules = {each.name: each.read_text() for each in STATIC.glob("*.js")}

    imported = {name for text in modules.values() for name in re.findall(r'from "\./([^"]+)"', text)}
    assert imported == set(modules) - {"inboxes.js"}


@pytest.mark.parametrize(
    "name", ["innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySetInnerHTML", "eval("]
)
def test_no_text_is_ever_made_into_markup(name):
    assert [each.name for each in STATIC.glob("*.js") if name in each.read_text()] == []


LIST = f"{API}/inboxes"


def connect(monkeypatch: pytest.MonkeyPatch, emulator: EmulatorServer, **fields: Any) -> None:
    """Change fields of the connection, or of its extra."""
    connection = emulator.connection()
    for name, value in fields.items():
        (connection if name in connection else connection["extra"])[name] = value
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_DEFAULT", json.dumps(connection))
    forget()


def test_secrets_are_never_sent_for_a_connection_of_another_type(
    op: TestClient, connected: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, connected, conn_type="http")

    assert op.get(LIST).status_code == 404
    assert connected.requests == []


def test_all_requests_of_an_answer_share_4_seconds(
    connected: EmulatorServer, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, limits = WorkflowClient.exchange, []

    def slowly(client: WorkflowClient, request: Request) -> Answer:
        limits.append(request.timeout)
        fake_clock.advance(1.5)
        return exchange(client, request)

    monkeypatch.setattr(WorkflowClient, "exchange", slowly)

    def list_often() -> None:
        with service.connected("workflow_default") as client:
            for _ in range(9):
                client.send(api.list_inboxes())

    with pytest.raises(PageError) as caught:
        list_often()

    assert limits == [4.0, 2.5, 1.0]
    assert (caught.value.status, caught.value.code) == (504, "timeout")
    assert caught.value.body["title"].endswith(" did not answer within 4 s")


def test_no_further_page_is_read_after_2_seconds(
    connected: EmulatorServer, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = WorkflowClient.exchange
    connected.put("orders", *range(250))
    inbox = connected.open_inbox("orders")
    whole = service.list_messages("workflow_default", inbox, None)

    def slowly(client: WorkflowClient, request: Request) -> Answer:
        fake_clock.advance(1.1)
        return exchange(client, request)

    monkeypatch.setattr(WorkflowClient, "exchange", slowly)
    part = service.list_messages("workflow_default", inbox, None)
    rest = service.list_messages("workflow_default", inbox, part["next"])

    assert (len(whole["messages"]), whole["next"]) == (250, None)
    assert (len(part["messages"]), len(rest["messages"]), rest["next"]) == (200, 50, None)


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


@pytest.mark.usefixtures("buried")
def test_a_message_is_listed_once_while_it_is_acknowledged(op: TestClient, connected: EmulatorServer) -> None:
    inbox = connected.open_inbox("orders")
    connected.put("orders", 1, ids=["a"])
    conf = {"connection_id": CONNECTION_ID, "inbox_id": inbox, "message": message_of("a")}
    DatabaseRuns().start("handle", run_id_of("a", inbox), conf)

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
