"""Values that nobody expects of the service or of a run stay text, or are left out, and break no answer."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from airflow_provider_workflow.database.runs import DatabaseRuns
from airflow_provider_workflow.dispatch.dead_letters import RUN_PREFIX, Reason, conf_of
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.plugin import service
from tests.unit.cli.burying import message_of
from tests.unit.plugin.conftest import API
from tests.unit.plugin.started import PAYLOAD

NAME = '<script>alert("1")</script> Grüße \'"&'


def test_fields_of_the_service_that_are_no_strings_are_left_out() -> None:
    inbox: Any = {"id": "a", "status": "active", "name": {"dangerouslySetInnerHTML": {"__html": "x"}}}
    message: Any = {"id": ["a"], "status": {"a": 1}, "created_at": "0001-01-01T00:00:00+14:00"}

    shown, listed = service.inbox_of(inbox), service.message_of(message, "a")

    assert (shown["id"], shown["name"]) == ("a", None)
    assert (listed["id"], listed["status"], listed["created_at"]) == (None, None, None)


@pytest.mark.parametrize("count", ["²", "9" * 5000, "-1", "x"])
@pytest.mark.usefixtures("buried")
def test_a_run_with_any_conf_breaks_nothing(op: TestClient, connected: EmulatorServer, count: str) -> None:
    inbox = connected.open_inbox("orders")
    odd = {"id": "a", "created_at": "9999-12-31T23:59:59-14:00", "message_attributes": {"lease_count": count}}
    conf = {"connection_id": "workflow_default", "inbox_id": inbox, "message": odd}
    DatabaseRuns().start("handle", run_id_of("a", inbox), conf)
    run_id = run_id_of("b", inbox, RUN_PREFIX)
    letter = conf_of(message_of("b"), "workflow_default", inbox, "handle", Reason.REJECTED, "a made-up cause")
    DatabaseRuns().start("dead", run_id, {**letter, "delivery_count": count})

    (shown,) = op.get(f"{API}/inboxes/{inbox}/dead-letters").json()["dead_letters"]
    found = op.get(f"{API}/inboxes/{inbox}/messages").json()["messages"]

    assert (shown["run_id"], shown["delivery_count"]) == (run_id, None)
    assert {each["id"]: each["delivery_count"] for each in found} == {"a": 0, "b": 0}
    assert op.get(f"{API}/inboxes/{inbox}/summary").status_code == 200


@pytest.mark.usefixtures("buried")
def test_long_strings_of_a_run_are_cut(op: TestClient, connected: EmulatorServer) -> None:
    inbox, long = connected.open_inbox("orders"), 100_000 * "x"
    conf = {"connection_id": "workflow_default", "inbox_id": inbox, "message": {"id": long}}
    run_id, dead_id = run_id_of(long, inbox), run_id_of(long, inbox, RUN_PREFIX)
    DatabaseRuns().start("handle", run_id, conf)
    letter = conf_of(
        message_of(long), "workflow_default", inbox, "handle", Reason.REJECTED, "a made-up cause"
    )
    odd = {**letter, **dict.fromkeys(("message_id", "reason", "cause", "target_dag_id"), long)}
    DatabaseRuns().start("dead", dead_id, odd)

    answers = [op.get(f"{API}/inboxes/{inbox}/{path}") for path in ("messages", "dead-letters")]

    assert ["x..." in answer.text for answer in answers] == [True, True]
    assert max(len(answer.text) for answer in answers) < 10_000


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


def test_half_a_surrogate_pair_is_replaced(op: TestClient, connected: EmulatorServer) -> None:
    """A service that cuts strings may send it in JSON; UTF-8 cannot encode it, nor a browser an address."""
    connected.open_inbox("cut \ud83d")

    answer = op.get(f"{API}/inboxes")

    assert (answer.status_code, answer.json()["inboxes"][0]["name"]) == (200, "cut ?")
