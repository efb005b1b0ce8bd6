"""What the page changes, and who may do what."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import select

from airflow_provider_workflow.airflow_internals import create_dag_run
from airflow_provider_workflow.dispatch.dead_letters import Reason
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.burying import CONNECTION_ID, INBOX_ID, Burying
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


REPLAY = f"{API}/inboxes/{INBOX_ID}/dead-letters/replay"


def replay(op: TestClient, run_id: str, **more: Any) -> Any:
    return op.post(REPLAY, json={"dag_id": "dead", "run_id": run_id, **more}, headers=PAGE)


def deny(monkeypatch: pytest.MonkeyPatch, dag_id: str, *methods: str) -> None:
    """Let users do nothing of this with a DAG."""
    decide = SimpleAuthManager.is_authorized_dag

    def decided(manager: Any, *, method: str, details: Any = None, **more: Any) -> bool:
        if details is not None and details.id == dag_id and method in methods:
            return False
        return bool(decide(manager, method=method, details=details, **more))  # type: ignore[arg-type]

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", decided)


def test_a_user_who_may_not_start_runs_of_the_target_replays_nothing(
    op: TestClient, buried: Burying, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = buried.bury("a")
    deny(monkeypatch, "handle", "POST")

    answer = replay(op, run_id)

    assert (answer.status_code, error_of(answer)) == (403, "forbidden")
    assert buried.replays() == {}


FOREIGN = [
    ({**PAGE, "Sec-Fetch-Site": "cross-site"}, "{}", 403),
    ({**PAGE, "Sec-Fetch-Site": "same-site"}, "{}", 403),
    ({"X-Workflow-Page": "1", "Content-Type": "text/plain"}, "{}", 415),
    ({"X-Workflow-Page": "1", "Content-Type": "application/x-www-form-urlencoded"}, "a=b", 415),
    ({"Content-Type": "application/json"}, "{}", 400),
    ({**PAGE}, "[]", 400),
    ({**PAGE}, "{", 400),
]


@pytest.mark.parametrize(("headers", "body", "status"), FOREIGN)
@pytest.mark.parametrize("what", ["pause", "resume", "dead-letters/replay"])
def test_what_another_site_can_send_changes_nothing(
    op: TestClient, connected: EmulatorServer, what: str, headers: dict[str, str], body: str, status: int
) -> None:
    inbox = connected.open_inbox("orders")

    answer = op.post(f"{API}/inboxes/{inbox}/{what}", content=body, headers=headers)

    assert (answer.status_code, error_of(answer)) == (status, "forbidden" if status == 403 else "invalid")
    assert connected.requests == []


def test_a_dead_letter_is_replayed_once_and_says_by_whom(
    op: TestClient, buried: Burying, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    run_id, replay_id = buried.bury("a", {"n": "a payload"}), run_id_of("a", INBOX_ID)

    first, second = replay(op, run_id, reason="fixed the schema"), replay(op, run_id)

    url = f"/dags/handle/runs/{replay_id}"
    run = {"dag_id": "handle", "run_id": replay_id, "state": None, "url": url}
    assert first.json() == {**run, "outcome": "started"}
    assert second.json()["outcome"] == "existing"
    assert buried.replays()[replay_id]["message"]["payload"] == {"n": "a payload"}
    assert f"the dead letter {run_id} was replayed by op" in caplog.text
    assert "a payload" not in caplog.text
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.run_id == replay_id))
        assert run is not None
        assert (str(run.triggered_by.value), run.triggering_user_name) == ("operator", "op")


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"trigger_dag_id": None}, 400, "invalid"),
        ({"trigger_dag_id": "missing"}, 409, "rejected"),
        ({"trigger_dag_id": "handle"}, 200, None),
        ({"trigger_dag_id": 7}, 400, "invalid"),
        ({"reason": "x" * 3000, "trigger_dag_id": "handle"}, 400, "invalid"),
        ({"run_id": "workflow__dead__unknown", "trigger_dag_id": "handle"}, 404, "not_found"),
        ({"dag_id": "handle", "run_id": "manual__1", "trigger_dag_id": "handle"}, 404, "not_found"),
        ({"run_id": None}, 400, "invalid"),
    ],
)
def test_a_replay_needs_a_dead_letter_and_a_target(
    op: TestClient, buried: Burying, fields: dict[str, Any], status: int, code: str | None
) -> None:
    run_id = buried.bury("a", reason=Reason.UNMATCHED, target=None)

    answer = op.post(REPLAY, json={"dag_id": "dead", "run_id": run_id, **fields}, headers=PAGE)

    assert answer.status_code == status, answer.text
    assert code is None or error_of(answer) == code
    assert len(buried.replays()) == (1 if code is None else 0)


def test_a_run_that_a_person_started_is_not_taken_for_the_replay(op: TestClient, buried: Burying) -> None:
    run_id, replay_id = buried.bury("a"), run_id_of("a", INBOX_ID)
    conf = {"connection_id": CONNECTION_ID, "inbox_id": INBOX_ID, "message": {"id": "a"}}
    create_dag_run("handle", replay_id, conf, None, triggered_by="REST_API", user="bob")

    answer = replay(op, run_id)

    assert (answer.status_code, error_of(answer)) == (409, "rejected")
    assert "exists, and a user or another message started it" in answer.json()["error"]["title"]
