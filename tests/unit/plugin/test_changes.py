"""Pause, resume and replay: what they do, and whose requests they reject."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import select

from airflow_provider_workflow.airflow_internals import create_dag_run
from airflow_provider_workflow.dispatch.dead_letters import Reason
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.burying import CONNECTION_ID, INBOX_ID, Burying
from tests.unit.plugin.conftest import API, PAGE, error_of

DEAD_LETTERS = f"{API}/inboxes/{INBOX_ID}/dead-letters"
REPLAY = f"{DEAD_LETTERS}/replay"
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


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_page_pauses_and_resumes_an_inbox(op: TestClient, connected: EmulatorServer, site: str) -> None:
    inbox = connected.open_inbox("orders")
    headers = {**PAGE, "Sec-Fetch-Site": site}
    assert op.get(f"{API}/inboxes").json()["inboxes"][0]["status"] == "active"

    paused = op.post(f"{API}/inboxes/{inbox}/pause", json={}, headers=headers).json()
    listed = op.get(f"{API}/inboxes").json()["inboxes"][0]
    resumed = op.post(f"{API}/inboxes/{inbox}/resume", json={}, headers=headers).json()

    assert (paused["status"], paused["paused_reason"]) == ("paused", "user")
    text = "a user paused it; to resume it: press Resume; new events are dropped meanwhile"
    assert paused["paused_text"] == text
    assert listed == {**paused, "summary": None, "runs": {}}
    assert (resumed["status"], resumed["paused_text"]) == ("active", None)


def replay(op: TestClient, run_id: str, **more: Any) -> Any:
    return op.post(REPLAY, json={"dag_id": "dead", "run_id": run_id, **more}, headers=PAGE)


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
    ("reason", "quoted"),
    [
        ("fixed\nthe schema", r"`fixed\nthe schema`"),
        ("![x](http://tracker.example/x.png)", "`![x](http://tracker.example/x.png)`"),
        ("`<b>`", r"`\x60<b>\x60`"),
        ("x" * 500, f"`{'x' * 500}`"),
    ],
)
def test_the_note_of_a_replay_has_the_reason_as_code(
    op: TestClient, buried: Burying, reason: str, quoted: str
) -> None:
    """Airflow's UI renders notes as Markdown."""
    replay(op, buried.bury("a" * 300), reason=reason)

    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == "handle"))
        assert run is not None
        assert str(run.note).endswith(f"replayed by `op` on the page Inboxes: {quoted}")


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


@pytest.mark.parametrize("other", [{"inbox_id": "another"}, {"connection_id": "another"}])
def test_a_dead_letter_of_another_inbox_or_connection_is_not_replayed(
    op: TestClient, buried: Burying, other: dict[str, str]
) -> None:
    run_id = buried.bury("a", **other)

    answer = replay(op, run_id)

    assert (answer.status_code, error_of(answer)) == (404, "not_found")
    assert op.get(f"{DEAD_LETTERS}/dead/{run_id}/message").status_code == 404
    assert buried.replays() == {}


def test_a_dead_letter_that_a_person_made_is_not_replayed(op: TestClient, buried: Burying) -> None:
    run_id = buried.forge("a", user="bob")

    answer = replay(op, run_id)

    assert (answer.status_code, error_of(answer)) == (404, "not_found")
    assert buried.replays() == {}


def test_a_run_that_a_person_started_is_not_taken_for_the_replay(op: TestClient, buried: Burying) -> None:
    run_id, replay_id = buried.bury("a"), run_id_of("a", INBOX_ID)
    conf = {"connection_id": CONNECTION_ID, "inbox_id": INBOX_ID, "message": {"id": "a"}}
    create_dag_run("handle", replay_id, conf, None, triggered_by="REST_API", user="bob")

    answer = replay(op, run_id)

    assert (answer.status_code, error_of(answer)) == (409, "rejected")
    assert "exists, and a user or another message started it" in answer.json()["error"]["title"]


@pytest.mark.parametrize("connection", ["missing", "mail"])
def test_dead_letters_of_a_connection_that_is_not_one_are_not_found(
    op: TestClient, buried: Burying, monkeypatch: pytest.MonkeyPatch, connection: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MAIL", "smtp://host")
    run_id = buried.bury("a", connection_id=connection)
    inbox = f"/workflow/api/connections/{connection}/inboxes/{INBOX_ID}"
    fields = {"dag_id": "dead", "run_id": run_id}

    answers = [
        op.get(f"{inbox}/dead-letters"),
        op.post(f"{inbox}/dead-letters/replay", json=fields, headers=PAGE),
        op.get(f"{inbox}/summary"),
        op.get(f"{inbox}/messages"),
        op.get(inbox),
        op.post(f"{inbox}/pause", json={}, headers=PAGE),
    ]

    assert [(each.status_code, error_of(each)) for each in answers] == [(404, "no_connection")] * 6
    assert buried.replays() == {}
