"""What the page shows of messages: their runs and dead letters."""

from __future__ import annotations

from datetime import timedelta

from fastapi.testclient import TestClient

from airflow_provider_workflow import clock
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.burying import Burying
from tests.unit.fake_clock import FakeClock
from tests.unit.plugin.conftest import API
from tests.unit.plugin.started import PAYLOAD, start


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


def test_dead_letters_are_listed_with_their_replays(
    op: TestClient, buried: Burying, connected: EmulatorServer
) -> None:
    inbox = connected.open_inbox("orders")
    buried.bury("a", PAYLOAD, inbox_id=inbox, age=timedelta(hours=1), cause="too large")
    buried.bury("b", inbox_id=inbox, target=None)
    buried.bury("c", inbox_id="another")
    buried.bury("d", inbox_id=inbox, connection_id="another")
    buried.forge("e", user="bob", inbox_id=inbox)
    replayed = start("a", inbox)

    answer = op.get(f"{API}/inboxes/{inbox}/dead-letters")

    newest, oldest = answer.json()["dead_letters"]
    assert (newest["message_id"], newest["target_dag_id"], newest["replayed"]) == ("b", None, None)
    assert (oldest["reason"], oldest["cause"], oldest["delivery_count"]) == ("rejected", "too large", 3)
    assert oldest["replayed"]["run_id"] == replayed
    assert oldest["started_by"] == "the command line"
    assert oldest["url"] == f"/dags/dead/runs/{oldest['run_id']}"
    assert (PAYLOAD in answer.text, answer.json()["is_partial"]) == (False, False)
