"""What the page changes, and who may do what."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.models.connection import Connection
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import select

from airflow_provider_workflow import airflow_internals
from airflow_provider_workflow.dispatch.blame import Reason
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.plugin.app import application
from tests.unit.cli.database import Database, listening
from tests.unit.cli.dead_letter_runs import INBOX_ID, DeadLetterRuns, start
from tests.unit.plugin.conftest import API, PAGE, ROLES, As, connect, error_of

INBOX = API + "/inboxes/{inbox}"
OF_USER = {"/workflow/api/connections": (401, 200, 200, 200, 200)}
OF_CONNECTION = dict.fromkeys(
    [
        *(f"{API}/inboxes", f"{API}/dead-letters"),
        *(INBOX, f"{INBOX}/summary", f"{INBOX}/messages", f"{INBOX}/dead-letters"),
    ],
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
    number: int, as_user: As, dead_letter_runs: DeadLetterRuns, connected_emulator: EmulatorServer
) -> None:
    client = as_user((None, *ROLES)[number])
    inbox = connected_emulator.open_inbox("orders")
    body = {"dag_id": "dead", "run_id": "workflow__dead__a"}

    reading = OF_USER | OF_CONNECTION
    read = {path: client.get(path.format(inbox=inbox)).status_code for path in reading}
    changed_statuses = {}
    for path in reversed(CHANGING):  # the one that changes something comes last
        answer = client.post(path.format(inbox=inbox), json=body, headers=PAGE)
        changed_statuses[path] = answer.status_code

    assert read == {path: statuses[number] for path, statuses in reading.items()}
    assert changed_statuses == {path: statuses[number] for path, statuses in CHANGING.items()}
    assert connected_emulator.count("pause_inbox") == (1 if number > 2 else 0)


def test_no_route_is_missing_in_the_matrix() -> None:
    # The schema has all of them, however FastAPI nests routers.
    routes = application().openapi()["paths"].values()

    # One route pauses and resumes.
    assert sum(map(len, routes)) == len({**OF_USER, **OF_CONNECTION, **CHANGING}) - 1


def test_a_user_who_may_read_no_connection_sees_none_and_may_add_none(as_user: As) -> None:
    answers = [as_user(role).get("/workflow/api/connections").json() for role in ("user", "op")]

    assert [answer["may_add"] for answer in answers] == [False, True]
    assert answers[0]["connections"] == []


def test_a_connection_of_a_team_is_used_by_that_team_alone(
    as_user: As, connected_emulator: EmulatorServer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    inbox = add_connection(database, connected_emulator, conn_id="of_red", team_name="red").open_inbox(
        "orders"
    )
    path, change = "/workflow/api/connections/of_red/inboxes", {"json": {}, "headers": PAGE}

    red, blue = as_user("op", teams=["red"]), as_user("op", teams=["blue"])

    assert (red.get(path).status_code, blue.get(path).status_code) == (200, 403)
    for client, is_listed in ((red, True), (blue, False)):
        connections = client.get("/workflow/api/connections").json()["connections"]
        assert ("of_red" in [connection["connection_id"] for connection in connections]) is is_listed
    assert blue.post(f"{path}/{inbox}/pause", **change).status_code == 403
    assert red.post(f"{path}/{inbox}/pause", **change).status_code == 200


def test_a_listener_of_another_team_names_no_dead_letter_dag_of_a_connection_of_a_team(
    as_user: As,
    dead_letter_runs: DeadLetterRuns,
    connected_emulator: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    of_red = {"conn_id": "of_red", "team_name": "red"}
    inbox = add_connection(dead_letter_runs.database, connected_emulator, **of_red).open_inbox("orders")
    teams = {"listen_red": "red", "dead_red": "red", "listen_blue": "blue"}
    monkeypatch.setattr(airflow_internals, "team_of_dag", teams.get)
    for team in ("red", "blue"):
        dead = f"dead_{team}"
        dead_letter_runs.database.add_dag(dead)
        arguments = {"inbox": "orders", "trigger_dag_id": "handle", "dead_letter_dag_id": dead}
        dead_letter_runs.database.deploy(listening(f"listen_{team}", workflow_conn_id="of_red", **arguments))
        dead_letter_runs.bury(dead, dag_id=dead, connection_id="of_red", inbox_id=inbox)

    path = f"/workflow/api/connections/of_red/inboxes/{inbox}/dead-letters"
    answer = as_user("op", teams=["red"]).get(path).json()

    assert [letter["dag_id"] for letter in answer["dead_letters"]] == ["dead_red"]
    assert answer["unnamed_dags"] == [{"dag_id": "dead_blue"}]


def add_connection(database: Database, emulator: EmulatorServer, **fields: Any) -> EmulatorServer:
    """Add a connection of a team to the emulator, which is returned."""
    database.add_team(fields["team_name"])
    connection = emulator.connection()
    database.add_connection(Connection(**{**connection, "extra": json.dumps(connection["extra"]), **fields}))
    return emulator


def deny(
    monkeypatch: pytest.MonkeyPatch, dag_id: str, *methods: str, entity: DagAccessEntity | None = None
) -> None:
    """Let users do nothing of this with a DAG, or with one kind of what it has."""
    decide = SimpleAuthManager.is_authorized_dag

    def decided(manager: Any, *, method: str, details: Any = None, **more: Any) -> bool:
        is_meant = entity in (None, more.get("access_entity"))
        if is_meant and details is not None and details.id == dag_id and method in methods:
            return False
        return bool(decide(manager, method=method, details=details, **more))  # type: ignore[arg-type]

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", decided)


def test_dags_that_the_user_may_not_read_are_left_out(
    op: TestClient,
    dead_letter_runs: DeadLetterRuns,
    connected_emulator: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox = connected_emulator.open_inbox("orders")
    connected_emulator.put("orders", 1, ids=["a"])
    for dag_id in ("open", "hidden"):
        dead_letter_runs.database.deploy(listening(dag_id, inbox="orders", trigger_dag_id="handle"))
    run_id = dead_letter_runs.bury("a", inbox_id=inbox)
    deny(monkeypatch, "hidden", "GET")
    deny(monkeypatch, "dead", "GET")

    (inbox_of_page,) = op.get(f"{API}/inboxes").json()["inboxes"]
    (message,) = op.get(f"{API}/inboxes/{inbox}/messages").json()["messages"]

    assert [listener["dag_id"] for listener in inbox_of_page["listeners"]] == ["open"]
    assert op.get(f"{API}/inboxes").json()["findings"] == [], "two listeners, one of which is not shown"
    assert (message["run"], message["dead_letter"]) == (None, None)
    assert op.get(f"{API}/inboxes/{inbox}/dead-letters").json()["dead_letters"] == []
    fields = {"dag_id": "dead", "run_id": run_id}
    answer = op.post(f"{API}/inboxes/{inbox}/dead-letters/replay", json=fields, headers=PAGE)
    assert (answer.status_code, error_of(answer)) == (404, "not_found")
    assert dead_letter_runs.replays() == {}


def test_a_missing_dag_is_named_only_to_those_who_may_read_its_listener(
    op: TestClient,
    dead_letter_runs: DeadLetterRuns,
    connected_emulator: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connected_emulator.open_inbox("orders")
    for dag_id, target in (("hidden", "secret"), ("open", "gone")):
        dead_letter_runs.database.deploy(listening(dag_id, inbox="orders", trigger_dag_id=target))
    for dag_id in ("hidden", "gone"):
        deny(monkeypatch, dag_id, "GET")

    answer = op.get(f"{API}/inboxes")

    assert [finding["check"] for finding in answer.json()["findings"]] == ["target gone"]
    assert "secret" not in answer.text


def test_states_of_runs_that_the_user_may_not_read_are_left_out(
    op: TestClient,
    dead_letter_runs: DeadLetterRuns,
    connected_emulator: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox = connected_emulator.open_inbox("orders")
    connected_emulator.store.inboxes.force(inbox, "paused", "abandoned")
    dead_letter_runs.database.deploy(listening("listen", inbox="orders", trigger_dag_id="handle"))
    dead_letter_runs.database.add_run("listen", "failed", datetime(2026, 1, 1, tzinfo=UTC))
    start("a", inbox)
    dead_letter_runs.bury("b", inbox_id=inbox)
    for dag_id in ("listen", "handle"):
        deny(monkeypatch, dag_id, "GET", entity=DagAccessEntity.RUN)

    listing = op.get(f"{API}/inboxes").json()

    assert listing["inboxes"][0]["runs"] == {"dead_letter": 1}
    assert listing["findings"][0]["failing_since"] is None
    assert listing["inboxes"][0]["listeners"][0]["last_run"] is None


def test_a_user_who_may_not_start_runs_of_the_target_replays_nothing(
    op: TestClient, dead_letter_runs: DeadLetterRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = dead_letter_runs.bury("a")
    deny(monkeypatch, "handle", "POST")

    answer = replay(op, run_id)

    assert (answer.status_code, error_of(answer)) == (403, "forbidden")
    assert dead_letter_runs.replays() == {}


REPLAY = f"{API}/inboxes/{INBOX_ID}/dead-letters/replay"
FOREIGN = [
    ({**PAGE, "Sec-Fetch-Site": "cross-site"}, "{}", 403),
    ({**PAGE, "Sec-Fetch-Site": "same-site"}, "{}", 403),
    ({"X-Workflow-Page": "1", "Content-Type": "application/x-www-form-urlencoded"}, "a=b", 415),
    ({"Content-Type": "application/json"}, "{}", 400),
]


@pytest.mark.parametrize(("headers", "body", "status"), FOREIGN)
@pytest.mark.parametrize("route", ["pause", "dead-letters/replay"])
def test_what_another_site_can_send_changes_nothing(
    op: TestClient,
    connected_emulator: EmulatorServer,
    route: str,
    headers: dict[str, str],
    body: str,
    status: int,
) -> None:
    inbox = connected_emulator.open_inbox("orders")

    answer = op.post(f"{API}/inboxes/{inbox}/{route}", content=body, headers=headers)

    assert (answer.status_code, error_of(answer)) == (status, "forbidden" if status == 403 else "invalid")
    assert connected_emulator.requests == []


def test_the_page_pauses_and_resumes_an_inbox(
    op: TestClient, connected_emulator: EmulatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    inbox = connected_emulator.open_inbox("orders")
    of_page, typed = ({**PAGE, "Sec-Fetch-Site": site} for site in ("same-origin", "none"))
    assert op.get(f"{API}/inboxes").json()["inboxes"][0]["status"] == "active"

    paused = op.post(f"{API}/inboxes/{inbox}/pause", json={}, headers=of_page).json()
    entry = op.get(f"{API}/inboxes").json()["inboxes"][0]
    resumed = op.post(f"{API}/inboxes/{inbox}/resume", content="{", headers=typed).json()

    assert (paused["status"], paused["paused_reason"]) == ("paused", "user")
    text = "paused (user): new events are dropped. a user paused it; to resume it: press Resume"
    assert paused["paused_text"] == text
    listened = {"listeners": [], "no_listener": entry["no_listener"]}
    assert entry == {**paused, **listened, "summary": None, "runs": {}}
    assert (resumed["status"], resumed["paused_text"], "listeners" in resumed) == ("active", None, False)
    assert "Inbox orders of the connection workflow_default: paused by op" in caplog.text


def replay(op: TestClient, run_id: str, **more: Any) -> Any:
    return op.post(REPLAY, json={"dag_id": "dead", "run_id": run_id, **more}, headers=PAGE)


def test_a_dead_letter_is_replayed_once_and_says_by_whom(
    op: TestClient, dead_letter_runs: DeadLetterRuns, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    run_id = dead_letter_runs.bury("a", {"n": "a payload"}, changes={"inbox_name": "orders"})
    replay_id = run_id_of("a", INBOX_ID)

    first, second = replay(op, run_id, reason="fixed the schema"), replay(op, run_id)

    url = f"/dags/handle/runs/{replay_id}"
    run = {"dag_id": "handle", "run_id": replay_id, "state": None, "url": url}
    assert first.json() == {**run, "outcome": "started"}
    assert second.json()["outcome"] == "existing"
    assert dead_letter_runs.replays()[replay_id]["message"]["payload"] == {"n": "a payload"}
    assert f"Inbox orders: the dead letter {run_id} was replayed by op" in caplog.text
    assert "a payload" not in caplog.text
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.run_id == replay_id))
        assert run is not None
        assert (str(run.triggered_by.value), run.triggering_user_name) == ("operator", "op")


def test_a_dead_letter_that_was_replayed_with_another_dag_is_not_replayed_again(
    op: TestClient, dead_letter_runs: DeadLetterRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_letter_runs.database.add_dag("other")
    run_id = dead_letter_runs.bury("a")
    replays = [replay(op, run_id, trigger_dag_id=dag_id).json() for dag_id in ("other", None, "handle")]

    assert [run["outcome"] for run in replays] == ["started", "existing", "existing"]
    assert {run["dag_id"] for run in replays} == {"other"}
    deny(monkeypatch, "other", "GET")
    response = replay(op, run_id)
    assert response.status_code == 409
    assert "The message has a DAG run already, in a DAG whose runs you may not read" in response.text
    assert dead_letter_runs.replays() == {}


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("fixed\n`![x](http://a.example)`", r"`fixed\n\x60![x](http://a.example)\x60`"),
        ("x" * 500, f"`{'x' * 500}`"),
    ],
)
def test_the_note_of_a_replay_has_the_reason_as_code(
    op: TestClient, dead_letter_runs: DeadLetterRuns, reason: str, text: str
) -> None:
    """Airflow's UI renders notes as Markdown."""
    replay(op, dead_letter_runs.bury("a" * 300), reason=reason)

    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == "handle"))
        assert run is not None
        assert str(run.note).endswith(f"replayed by `op` on the page Inboxes: {text}")


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"trigger_dag_id": None}, 400, "invalid"),
        ({"trigger_dag_id": "missing"}, 409, "rejected"),
        ({"trigger_dag_id": "handle"}, 200, None),
        ({"reason": "x" * 3000, "trigger_dag_id": "handle"}, 400, "invalid"),
        ({"run_id": "workflow__dead__unknown", "trigger_dag_id": "handle"}, 404, "not_found"),
        ({"run_id": None}, 400, "invalid"),
    ],
)
def test_a_replay_needs_a_dead_letter_and_a_target(
    op: TestClient, dead_letter_runs: DeadLetterRuns, fields: dict[str, Any], status: int, code: str | None
) -> None:
    run_id = dead_letter_runs.bury("a", reason=Reason.UNMATCHED, target=None)

    answer = op.post(REPLAY, json={"dag_id": "dead", "run_id": run_id, **fields}, headers=PAGE)

    assert answer.status_code == status, answer.text
    assert code is None or error_of(answer) == code
    assert len(dead_letter_runs.replays()) == (1 if code is None else 0)


def test_with_a_connection_of_another_type_or_none_nothing_is_found_and_no_secret_is_sent(
    op: TestClient,
    dead_letter_runs: DeadLetterRuns,
    connected_emulator: EmulatorServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect(monkeypatch, connected_emulator, conn_type="http")
    run_id, inbox = dead_letter_runs.bury("a"), INBOX.format(inbox=INBOX_ID)

    answers = [
        *(op.get(path.format(inbox=INBOX_ID)) for path in OF_CONNECTION),
        op.get(f"{API.replace('default', 'missing')}/inboxes"),
        op.post(f"{inbox}/pause", json={}, headers=PAGE),
        replay(op, run_id),
    ]

    assert [(answer.status_code, error_of(answer)) for answer in answers] == [(404, "no_connection")] * 9
    assert "of the type Workflow" in answers[0].json()["error"]["fix"]
    assert (dead_letter_runs.replays(), connected_emulator.requests) == ({}, [])
