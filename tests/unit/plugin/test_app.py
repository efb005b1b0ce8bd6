"""The app of the page: registration, routes, the service behind it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow.models.connection import Connection
from fastapi import APIRouter, FastAPI
from fastapi.dependencies.utils import get_flat_dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

import airflow_provider_workflow
from airflow_provider_workflow import __version__
from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.http_messages import Answer, Request
from airflow_provider_workflow.client.sync_client import WorkflowClient
from airflow_provider_workflow.dispatch.quarantine import check_quarantine
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.get_provider_info import get_provider_info
from airflow_provider_workflow.hooks.user_tokens import VariableStore
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.plugin import WorkflowPlugin, service
from airflow_provider_workflow.plugin.responses import PageError
from tests.unit.cli.dead_letter_runs import DeadLetterRuns
from tests.unit.client.calls import SOME_ID
from tests.unit.client.matrix.test_broken import TRICKLES
from tests.unit.client.scripted_server import ScriptedServer
from tests.unit.client.stores import logged_in
from tests.unit.documents import ROOT
from tests.unit.fake_clock import FakeClock
from tests.unit.loading import modules_of
from tests.unit.plugin.conftest import API, connect, error_of


def test_connections_are_listed_from_database_and_environment(
    op: TestClient, dead_letter_runs: DeadLetterRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WORKFLOW_B", '{"conn_type": "workflow"}')
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "http://host")
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", "{")
    add = dead_letter_runs.database.add_connection
    add(Connection(conn_id="workflow_a", conn_type="workflow"))
    add(Connection(conn_id="mail", conn_type="smtp"))

    answer = op.get("/workflow/api/connections").json()

    ids = [connection["connection_id"] for connection in answer["connections"]]
    assert ids == ["workflow_a", "workflow_b", "workflow_default"]
    assert "cannot read AIRFLOW_CONN_BROKEN (give" in op.get("/workflow/api/connections/broken/inboxes").text


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
from airflow import plugins_manager

plugins_manager.ensure_plugins_loaded()
plugins_manager.integrate_macros_plugins()
"""


@pytest.mark.slow
def test_a_process_that_serves_no_pages_imports_no_fastapi() -> None:
    more = modules_of(LOAD)

    assert "airflow_provider_workflow.plugin" in more
    assert more & {"fastapi", "airflow_provider_workflow.plugin.app"} == set()


@pytest.mark.parametrize("plugin", [WorkflowPlugin(), WorkflowPlugin], ids=["instance", "class"])
def test_an_application_and_a_page_are_registered(plugin: WorkflowPlugin) -> None:
    (app,) = plugin.fastapi_apps
    (page,) = plugin.react_apps

    assert (app["url_prefix"], type(app["app"])) == ("/workflow", FastAPI)
    assert (page["name"], page["destination"], page["url_route"]) == ("Inboxes", "nav", "workflow-inboxes")


def test_nothing_is_registered_when_the_page_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__WORKFLOW__PAGE", "off")

    assert WorkflowPlugin().fastapi_apps == []
    assert WorkflowPlugin().react_apps == []


@pytest.mark.parametrize(
    ("base_url", "path"),
    [("http://localhost:8080", ""), ("https://example.com/airflow/", "/airflow")],
)
def test_the_module_is_found_below_the_path_of_the_base_url(
    base_url: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)

    expected = f"{path}/workflow/static/inboxes.js?v={__version__}"
    assert [react_app["bundle_url"] for react_app in WorkflowPlugin().react_apps[:1]] == [expected]


def test_entry_point_and_provider_name_the_same_plugin() -> None:
    (plugin,) = get_provider_info()["plugins"]
    module, _, name = plugin["plugin-class"].rpartition(".")

    assert getattr(import_module(module), name) is WorkflowPlugin
    assert plugin["name"] == WorkflowPlugin.name
    assert f'workflow = "{module}:{name}"' in (ROOT / "pyproject.toml").read_text()


STATIC = Path(airflow_provider_workflow.__file__).parent / "plugin" / "static"
TESTS = Path(__file__).parents[2] / "page"
MAX_BYTES = 72_000
"""Bytes of all modules, which a browser loads as they are, and again with each new version."""
MAX_WIDTH = 110
"""Characters of a line, as in Python."""
NODE = shutil.which("node")
OLDEST_NODE = (20, 19)
"""The first one that tells modules from scripts by their content."""


def node_version() -> tuple[int, ...]:
    """The version of node; empty without one."""
    if NODE is None:
        return ()
    process = subprocess.run([NODE, "--version"], capture_output=True, text=True, timeout=60, check=True)
    return tuple(map(int, re.findall(r"\d+", process.stdout)))


@pytest.mark.slow
@pytest.mark.skipif(node_version() < OLDEST_NODE, reason="needs node 20.19 or newer")
def test_the_logic_of_the_page_passes_its_own_tests():
    files = sorted(map(str, TESTS.glob("*.test.mjs")))
    process = subprocess.run(
        [str(NODE), "--test", "--test-reporter=tap", *files],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    counts = dict(re.findall(r"^# (tests|pass|fail) (\d+)$", process.stdout, re.MULTILINE))
    assert process.returncode == 0, process.stdout[-5000:] + process.stderr[-2000:]
    assert files
    assert int(counts["tests"]) == int(counts["pass"]) > len(files)


def test_the_page_stays_small():
    sizes = {path.name: path.stat().st_size for path in STATIC.glob("*.js")}

    assert "inboxes.js" in sizes
    assert sum(sizes.values()) < MAX_BYTES, sizes


@pytest.mark.parametrize(
    ("module", "path", "names"),
    [
        ("dag_run", "/dags/{dag_id}/dagRuns", {"conf_contains", "run_id_pattern", "order_by", "limit"}),
        (
            "task_instances",
            "/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances",
            {"task_id", "state", "order_by", "limit"},
        ),
        (
            "xcom",
            "/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances/{task_id}/xcomEntries/{xcom_key:path}",
            {"map_index"},
        ),
    ],
)
def test_airflows_own_api_knows_what_the_page_asks_it(module: str, path: str, names: set[str]) -> None:
    """It ignores the name of a query that it does not know: a search would find all runs."""
    routes = import_module(f"airflow.api_fastapi.core_api.routes.public.{module}")
    routers = [value for value in vars(routes).values() if isinstance(value, APIRouter)]
    (route,) = (
        route
        for router in routers
        for route in router.routes
        if isinstance(route, APIRoute) and (route.path, route.methods) == (path, {"GET"})
    )

    known = {field.alias for field in get_flat_dependant(route.dependant).query_params}

    asked = set(re.findall(r'\[\[?"([a-z_]+)",', (STATIC / "inboxes.js").read_text()))
    assert names <= known
    assert names <= asked


def test_each_module_that_is_imported_is_there_and_each_one_is_imported():
    modules = {path.name: path.read_text() for path in STATIC.glob("*.js")}

    imported_names = {name for text in modules.values() for name in re.findall(r'from "\./([^"]+)"', text)}
    assert imported_names == set(modules) - {"inboxes.js"}


def test_no_line_of_the_page_is_wider_than_110_characters():
    lines = [(path.name, line) for path in STATIC.glob("*.js") for line in path.read_text().splitlines()]

    assert [(name, line) for name, line in lines if len(line) > MAX_WIDTH] == []


def test_no_text_is_ever_made_into_markup():
    unsafe = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|eval\(")

    assert [path.name for path in STATIC.glob("*.js") if unsafe.search(path.read_text())] == []


LIST = f"{API}/inboxes"
SECRET = "a secret that is wrong"


@pytest.mark.parametrize(
    ("fields", "status", "code", "fix"),
    [
        ({"password": SECRET}, 502, "wrong_credentials", "correct its Client ID (login) and Client secret"),
        ({"host": "http://127.0.0.1:1"}, 502, "unreachable", "check Base URL and Inbox path"),
        ({"oauth_url": "http://127.0.0.1:1/"}, 502, "unreachable", "check Token URL, and the network"),
        ({"inbox_path": "/wrong"}, 404, "not_found", "check Inbox path (/wrong) and Base URL"),
        ({"host": ""}, 502, "wrong_credentials", "correct these fields"),
    ],
)
def test_a_connection_that_cannot_be_used_is_diagnosed(
    op: TestClient,
    connected_emulator: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    status: int,
    code: str,
    fix: str,
) -> None:
    connect(monkeypatch, connected_emulator, **fields)

    answer = op.get(LIST)

    assert (answer.status_code, error_of(answer)) == (status, code)
    assert fix in answer.json()["error"]["fix"]
    assert SECRET not in answer.text


def test_the_page_does_not_tell_which_files_the_api_server_has(
    op: TestClient, connected_emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "no certificates").write_text("a text")
    (tmp_path / "large").write_bytes(b"x" * 1_000_001)
    answers = []
    for name in ("missing", "no certificates", "large", "."):
        connect(monkeypatch, connected_emulator, verify=str(tmp_path / name))
        answers.append(op.get(LIST))

    titles = {(answer.status_code, answer.json()["error"]["title"]) for answer in answers}
    text = "verify must be true, false or the path of a file with CA certificates (the file cannot be used)"
    assert titles == {(502, f"The workflow connection cannot be used: {text}.")}


@pytest.mark.parametrize("inbox", ["../../x", "a/b", ".."])
def test_an_inbox_that_leads_to_no_route_does_not_exist(
    op: TestClient, connected_emulator: EmulatorServer, inbox: str
) -> None:
    answer = op.get(f"{API}/inboxes/{quote(inbox, safe='')}")

    assert (answer.status_code, error_of(answer)) == (404, "not_found")
    assert connected_emulator.requests == []


@pytest.mark.parametrize(
    ("fault", "status", "code", "wait"),
    [
        ({"status": 429, "headers": {"Retry-After": "7"}}, 429, "rate_limited", "7"),
        ({"status": 500}, 502, "service_error", None),
        ({"status": 200, "text": "<html>", "content_type": "application/json"}, 502, "unreachable", None),
    ],
)
def test_a_service_that_fails_is_asked_once(
    op: TestClient,
    connected_emulator: EmulatorServer,
    fault: dict[str, Any],
    status: int,
    code: str,
    wait: str | None,
) -> None:
    connected_emulator.fault("status", operation="list_inboxes", times=None, **fault)

    answers = [op.get(LIST) for _ in range(3)]

    assert {(answer.status_code, error_of(answer)) for answer in answers} == {(status, code)}
    assert answers[0].headers.get("Retry-After") == wait
    assert connected_emulator.count("list_inboxes") == 1


def test_a_cursor_that_the_page_did_not_get_is_invalid(
    op: TestClient, connected_emulator: EmulatorServer
) -> None:
    answers = [op.get(f"{LIST}?cursor={cursor}") for cursor in ("x", "²", "1234567890")]

    assert {(answer.status_code, error_of(answer)) for answer in answers} == {(400, "invalid")}
    assert connected_emulator.requests == []


def test_all_requests_of_an_answer_share_4_seconds(
    connected_emulator: EmulatorServer, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, limits = WorkflowClient.exchange, []

    def slowly(client: WorkflowClient, request: Request) -> Answer:
        limits.append(request.timeout)
        fake_clock.advance(1.5)
        return exchange(client, request)

    monkeypatch.setattr(WorkflowClient, "exchange", slowly)

    with pytest.raises(PageError) as error_info, service.connected("workflow_default") as client:
        [client.send(api.list_inboxes()) for _ in range(9)]

    assert limits == [4.0, 2.5, 1.0]
    assert (error_info.value.status, error_info.value.code) == (504, "timeout")
    assert "no time is left" in error_info.value.body["title"]


@pytest.mark.parametrize(
    "look",
    [lambda op: op.get(LIST), lambda _: check_quarantine(WorkflowHook(), SOME_ID)],
    ids=["page", "quarantine check"],
)
def test_the_renewal_of_a_user_s_tokens_has_its_full_time(
    op: TestClient,
    connected_emulator: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
    look: Callable[[Any], object],
) -> None:
    """Its answer has the only refresh token: if nobody waits for it, the user must log in again."""
    exchange, limits = WorkflowClient.exchange, []
    connected_emulator.open_inbox("orders")
    connect(monkeypatch, connected_emulator, grant="refresh_token")
    VariableStore(WorkflowHook().settings).write(logged_in(connected_emulator, life=100.0))  # due for renewal

    def note(client: WorkflowClient, request: Request) -> Answer:
        if request.url.startswith(client.settings.token_url):
            limits.append(request.timeout)
        return exchange(client, request)

    monkeypatch.setattr(WorkflowClient, "exchange", note)
    look(op)

    assert limits == [30.0]


def test_no_further_page_is_read_after_2_seconds(
    connected_emulator: EmulatorServer, fake_clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = WorkflowClient.exchange
    connected_emulator.put("orders", *range(250))
    inbox = connected_emulator.open_inbox("orders")
    whole_list = service.list_messages("workflow_default", inbox, None)

    def slowly(client: WorkflowClient, request: Request) -> Answer:
        fake_clock.advance(1.1)
        return exchange(client, request)

    monkeypatch.setattr(WorkflowClient, "exchange", slowly)
    part = service.list_messages("workflow_default", inbox, None)
    last_part = service.list_messages("workflow_default", inbox, part["next"])

    assert (len(whole_list["messages"]), whole_list["next"]) == (250, None)
    assert (len(part["messages"]), len(last_part["messages"]), last_part["next"]) == (200, 50, None)


@pytest.mark.usefixtures("fake_clock")
def test_a_list_of_inboxes_has_at_most_5_pages(connected_emulator: EmulatorServer) -> None:
    for number in range(511):
        connected_emulator.open_inbox(f"inbox {number}")

    inboxes = service.list_inboxes("workflow_default", None)
    second_page = service.list_inboxes("workflow_default", inboxes["next"])

    assert (len(inboxes["inboxes"]), inboxes["next"], len(second_page["inboxes"])) == (500, "500", 11)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["headers", "interim answers", "trailers"])
def test_a_service_whose_answers_trickle_does_not_close_the_page_for_others(
    op: TestClient, connected_emulator: EmulatorServer, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(service, "MAX_ANSWER_SECONDS", 0.5)
    # The first request completes the route in the application; a server does so in its only thread.
    op.get(f"{API}/inboxes/{SOME_ID}")
    with ScriptedServer() as slow, ThreadPoolExecutor(service.MAX_REQUESTS_AT_ONCE) as users:
        slow.script(TRICKLES[part])
        connect(monkeypatch, connected_emulator, host=slow.url, oauth_url=f"{slow.url}/token")
        inboxes = [SOME_ID[:-1] + str(number) for number in range(service.MAX_REQUESTS_AT_ONCE)]
        answers = list(users.map(lambda inbox: op.get(f"{API}/inboxes/{inbox}"), inboxes))

    assert [(answer.status_code, error_of(answer)) for answer in answers] == [(504, "timeout")] * 8
    connect(monkeypatch, connected_emulator)
    assert op.get(LIST).status_code == 200
