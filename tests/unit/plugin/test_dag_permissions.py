"""Which DAGs each route touches, and what a user gets who lacks one permission of one of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.sdk import DAG
from fastapi.testclient import TestClient

from airflow_provider_workflow.database.dag_runs import MAX_CONF_BYTES, DatabaseRuns
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.plugin.access import ACTIONS
from airflow_provider_workflow.plugin.app import application
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.unit.cli.dead_letter_runs import CONNECTION_ID, INBOX_ID, DeadLetterRuns, message_of
from tests.unit.client.isolation import forget
from tests.unit.plugin.conftest import PAGE

Permission = tuple[str, str]
"""An action and a DAG."""
Row = Callable[[Any], Any]
"""The part of an answer that a user without the permission does not get."""

INBOX = "/api/connections/{connection_id}/inboxes/{inbox_id}"
DAGS = ("target", "finished", "chosen", "dead", "dead_large", "unnamed", "replayed_in")


def runs_in(listing: str) -> dict[Permission, Row]:
    """What an inbox has of DAGs: in a list, or below a name of another answer."""

    def within(answer: Any) -> Any:
        return answer[listing] if listing else answer

    def count(state: str, answer: Any) -> Any:
        return within(answer)["inboxes"][0]["runs"].get(state, 0)

    return {
        ("read", "listen"): lambda answer: within(answer)["inboxes"][0]["listeners"],
        ("read", "dead_large"): lambda answer: within(answer)["findings"][1:],
        ("read runs", "listen"): lambda answer: within(answer)["findings"][0]["failing_since"],
        ("read runs", "target"): partial(count, "running"),
        ("read runs", "finished"): partial(count, "success"),
        ("read runs", "dead"): lambda answer: count("dead_letter", answer) > 1,
        ("read runs", "dead_large"): lambda answer: within(answer)["large_runs"],
        ("read runs", "unnamed"): lambda answer: count("dead_letter", answer) > 2,
        ("read runs", "replayed_in"): partial(count, "failed"),
    }


def dead_letter(message_id: str, answer: Any) -> Any:
    """A dead letter of a list; None without it."""
    return next((entry for entry in answer["dead_letters"] if entry["message_id"] == message_id), None)


def message(message_id: str, answer: Any) -> Any:
    """A message of a list; an empty one without it."""
    return next((entry for entry in answer["messages"] if entry["id"] == message_id), {})


def is_started(answer: Any) -> bool:
    return "outcome" in answer


DEAD_LETTERS: dict[Permission, Row] = {
    ("read runs", "target"): lambda answer: dead_letter("waits", answer)["replayed"],
    ("read runs", "dead"): lambda answer: dead_letter("waits", answer),
    ("read runs", "dead_large"): lambda answer: answer["large_runs"],
    ("read runs", "unnamed"): lambda answer: answer["unnamed_dags"],
    ("read runs", "replayed_in"): lambda answer: dead_letter("replayed", answer)["replayed"],
}
MAY: dict[str, dict[Permission, Row]] = {
    "get /api/connections": {},
    "get /api/connections/{connection_id}/inboxes": runs_in(""),
    f"get {INBOX}": runs_in(""),
    f"get {INBOX}/summary": {},
    f"get {INBOX}/messages": {
        **runs_in("inbox"),
        ("read runs", "target"): lambda answer: message("waits", answer)["run"],
        ("read runs", "finished"): lambda answer: message("left", answer),
        ("read runs", "dead"): lambda answer: message("waits", answer)["dead_letter"],
        ("read runs", "unnamed"): lambda answer: message("forged", answer),
        ("read runs", "replayed_in"): lambda answer: message("replayed", answer).get("run"),
    },
    "get /api/connections/{connection_id}/dead-letters": DEAD_LETTERS,
    f"get {INBOX}/dead-letters": DEAD_LETTERS,
    f"post {INBOX}/{{verb}}": {},
    f"post {INBOX}/dead-letters/replay": {
        ("read runs", "dead"): is_started,
        ("start runs", "target"): is_started,
        ("start runs", "chosen"): is_started,
    },
}
"""By route: each permission of a DAG that it needs, and for what."""


class PermissionChecks(NamedTuple):
    """
    The auth manager of Airflow, of which a user may do everything with DAGs but one thing.

    :param permissions: those that it was asked for.
    :param denied: the one that it does not give.
    """

    permissions: set[Permission]
    denied: list[Permission]


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> PermissionChecks:
    checks, actions = PermissionChecks(set(), []), {known: action for action, known in ACTIONS.items()}

    def decide(_: Any, *, method: str, access_entity: Any = None, details: Any = None, **__: Any) -> bool:
        permission = (actions[method, access_entity and access_entity.name], details.id)
        checks.permissions.add(permission)
        return permission not in checks.denied

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", decide)
    return checks


@pytest.fixture
def inbox(dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer) -> str:
    """A paused inbox, of which each part that a route shows is of a DAG of its own."""
    inbox, database = connected_emulator.open_inbox("orders"), dead_letter_runs.database
    connected_emulator.put("orders", 1, ids=["waits"])
    connected_emulator.store.inboxes.force(inbox, "paused", "abandoned")
    for dag_id in DAGS:
        database.add_dag(dag_id)
    with DAG("listen", schedule=None) as dag:
        for dead in ("dead", "dead_large"):
            names = {"inbox": "orders", "trigger_dag_id": "target", "dead_letter_dag_id": dead}
            WorkflowInboxSensor(task_id=dead, **names)
    database.deploy(dag)
    database.add_run("listen", "failed", datetime(2026, 1, 1, tzinfo=UTC))
    for message_id, dag_id in (("waits", "target"), ("left", "finished"), ("replayed", "replayed_in")):
        conf = {"connection_id": CONNECTION_ID, "inbox_id": inbox, "message": message_of(message_id)}
        DatabaseRuns().start(dag_id, run_id_of(message_id, inbox), conf)
    for dag_id, state in (("target", "running"), ("finished", "success"), ("replayed_in", "failed")):
        database.set_states(dag_id, state)
    dead_letter_runs.bury("waits", inbox_id=inbox, target="target")
    dead_letter_runs.bury("replayed", inbox_id=inbox, target="replayed_in")
    dead_letter_runs.bury("forged", inbox_id=inbox, dag_id="unnamed")
    dead_letter_runs.bury("large", "x" * MAX_CONF_BYTES, inbox_id=inbox, dag_id="dead_large")
    database.change("dead_large", has_import_errors=True)
    return inbox


def request(op: TestClient, route: str, inbox: str, dead_letter_runs: DeadLetterRuns) -> Any:
    """The answer to a request, nothing of which is kept from another one."""
    forget()
    method, _, path = route.partition(" ")
    address = "/workflow" + path.format(connection_id=CONNECTION_ID, inbox_id=inbox, verb="resume")
    if method == "get":
        return op.get(address)
    # A dead letter whose message has no run yet.
    run_id = run_id_of("fresh", inbox, "workflow__dead__")
    body = {"dag_id": "dead", "run_id": run_id, "trigger_dag_id": "chosen"}
    return op.post(address, json=body, headers=PAGE)


@pytest.mark.parametrize("route", MAY)
def test_each_permission_of_a_dag_that_a_route_needs_is_needed_alone(
    route: str, op: TestClient, dead_letter_runs: DeadLetterRuns, inbox: str, checks: PermissionChecks
) -> None:
    if route.endswith("replay"):
        dead_letter_runs.bury("fresh", inbox_id=inbox, target="target")

    for permission, part in MAY[route].items():
        checks.denied[:] = [permission]
        answer = request(op, route, inbox, dead_letter_runs)
        expected = (403, 404) if route.startswith("post") else (200,)
        assert answer.status_code in expected, (permission, answer.text)
        assert not part(answer.json()), permission
        assert dead_letter_runs.replays("chosen") == {}

    checks.denied.clear()
    checks.permissions.clear()
    answer = request(op, route, inbox, dead_letter_runs)
    assert answer.status_code == 200, answer.text
    assert [permission for permission, part in MAY[route].items() if not part(answer.json())] == []
    assert checks.permissions == set(MAY[route])


def test_each_route_has_a_row() -> None:
    paths = application().openapi()["paths"]

    assert {f"{method} {path}" for path, methods in paths.items() for method in methods} == set(MAY)


def test_a_run_of_a_dead_letter_dag_with_a_made_up_id_is_not_replayed(
    op: TestClient, dead_letter_runs: DeadLetterRuns
) -> None:
    dead_letter_runs.bury("a")
    (conf,) = dead_letter_runs.replays("dead").values()
    confs = {"workflow__dead__copied": conf, "workflow__dead__empty": {**conf, "message_json": "{}"}}
    statuses = {}
    for run_id, made_up in confs.items():
        DatabaseRuns().start("dead", run_id, made_up)
        address = f"/workflow{INBOX}/dead-letters/replay"
        body = {"dag_id": "dead", "run_id": run_id}
        path = address.format(connection_id=CONNECTION_ID, inbox_id=INBOX_ID)
        answer = op.post(path, json=body, headers=PAGE)
        statuses[run_id] = (answer.status_code, answer.json()["error"]["code"])

    expected = [(404, "not_found"), (409, "rejected")]
    assert statuses == dict(zip(confs, expected, strict=True))
    assert dead_letter_runs.replays() == {}
