"""Who may use which route: nobody, and viewers, users, ops and admins of SimpleAuthManager."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.models.connection import Connection
from fastapi.testclient import TestClient

from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.plugin.app import application
from tests.unit.cli.burying import INBOX_ID, Burying
from tests.unit.cli.database import Database, listening
from tests.unit.plugin.conftest import API, PAGE, ROLES, As, error_of

INBOX = API + "/inboxes/{inbox}"
OF_USER = {"/workflow/api/connections": (401, 200, 200, 200, 200)}
OF_CONNECTION = dict.fromkeys(
    [f"{API}/inboxes", INBOX, f"{INBOX}/summary", f"{INBOX}/messages", f"{INBOX}/dead-letters"],
    (401, 403, 403, 200, 200),
)
CHANGING = {
    f"{INBOX}/pause": (401, 403, 403, 200, 200),
    f"{INBOX}/resume": (401, 403, 403, 409, 409),
    f"{INBOX}/dead-letters/replay": (401, 403, 403, 404, 404),
}
"""The status for nobody, and for each role; an inbox is active, and there is no dead letter."""


@pytest.mark.parametrize("number", range(5), ids=["nobody", *ROLES])
def test_each_route_asks_the_auth_manager(
    number: int, as_user: As, buried: Burying, connected: EmulatorServer
) -> None:
    client = as_user((None, *ROLES)[number])
    inbox = connected.open_inbox("orders")
    body = {"dag_id": "dead", "run_id": "workflow__dead__a"}

    reading = OF_USER | OF_CONNECTION
    read = {path: client.get(path.format(inbox=inbox)).status_code for path in reading}
    changed = {}
    for path in reversed(CHANGING):  # the one that changes something comes last
        answer = client.post(path.format(inbox=inbox), json=body, headers=PAGE)
        changed[path] = answer.status_code

    assert read == {path: statuses[number] for path, statuses in reading.items()}
    assert changed == {path: statuses[number] for path, statuses in CHANGING.items()}
    assert connected.count("pause_inbox") == (1 if number > 2 else 0)


def test_no_route_is_missing_in_the_matrix() -> None:
    # The schema has all of them, however FastAPI nests routers.
    routes = application().openapi()["paths"].values()

    # One route pauses and resumes.
    assert sum(map(len, routes)) == len({**OF_USER, **OF_CONNECTION, **CHANGING}) - 1


def test_a_user_who_may_read_no_connection_sees_none_and_may_add_none(as_user: As) -> None:
    shown = [as_user(role).get("/workflow/api/connections").json() for role in ("user", "op")]

    assert [each["may_add"] for each in shown] == [False, True]
    assert shown[0]["connections"] == []


def test_a_connection_of_a_team_is_used_by_that_team_alone(
    as_user: As, connected: EmulatorServer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    database.add_team("red")
    fields = connected.connection()
    fields["extra"] = json.dumps(fields["extra"])
    database.add_connection(Connection(conn_id="of_red", team_name="red", **fields))
    inbox = connected.open_inbox("orders")
    path, change = "/workflow/api/connections/of_red/inboxes", {"json": {}, "headers": PAGE}

    red, blue = as_user("op", teams=["red"]), as_user("op", teams=["blue"])

    assert (red.get(path).status_code, blue.get(path).status_code) == (200, 403)
    for client, listed in ((red, True), (blue, False)):
        found = client.get("/workflow/api/connections").json()["connections"]
        assert ("of_red" in [each["connection_id"] for each in found]) is listed
    assert blue.post(f"{path}/{inbox}/pause", **change).status_code == 403
    assert red.post(f"{path}/{inbox}/pause", **change).status_code == 200


def deny(monkeypatch: pytest.MonkeyPatch, dag_id: str, *methods: str) -> None:
    """Let users do nothing of this with a DAG."""
    decide = SimpleAuthManager.is_authorized_dag

    def decided(manager: Any, *, method: str, details: Any = None, **more: Any) -> bool:
        if details is not None and details.id == dag_id and method in methods:
            return False
        return bool(decide(manager, method=method, details=details, **more))  # type: ignore[arg-type]

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", decided)


def test_dags_that_the_user_may_not_read_are_left_out(
    op: TestClient, buried: Burying, connected: EmulatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = connected.open_inbox("orders")
    connected.put("orders", 1, ids=["a"])
    for dag_id in ("open", "hidden"):
        buried.database.deploy(listening(dag_id, inbox="orders", trigger_dag_id="handle"))
    run_id = buried.bury("a", inbox_id=inbox)
    deny(monkeypatch, "hidden", "GET")
    deny(monkeypatch, "dead", "GET")

    (listed,) = op.get(f"{API}/inboxes").json()["inboxes"]
    (message,) = op.get(f"{API}/inboxes/{inbox}/messages").json()["messages"]

    assert [each["dag_id"] for each in listed["listeners"]] == ["open"]
    assert (message["run"], message["dead_letter"]) == (None, None)
    assert op.get(f"{API}/inboxes/{inbox}/dead-letters").json()["dead_letters"] == []
    fields = {"dag_id": "dead", "run_id": run_id}
    answer = op.post(f"{API}/inboxes/{inbox}/dead-letters/replay", json=fields, headers=PAGE)
    assert (answer.status_code, error_of(answer)) == (404, "not_found")
    assert buried.replays() == {}


def test_a_user_who_may_not_start_runs_of_the_target_replays_nothing(
    op: TestClient, buried: Burying, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = buried.bury("a")
    deny(monkeypatch, "handle", "POST")
    fields = {"dag_id": "dead", "run_id": run_id}

    answer = op.post(f"{API}/inboxes/{INBOX_ID}/dead-letters/replay", json=fields, headers=PAGE)

    assert (answer.status_code, error_of(answer)) == (403, "forbidden")
    assert buried.replays() == {}
