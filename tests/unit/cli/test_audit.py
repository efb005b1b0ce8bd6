"""``inbox audit``: what the service lists, what Airflow has, and what is missing on either side."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_workflow.client.client import WorkflowClient
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.runs import DatabaseRuns
from airflow_provider_workflow.dispatch.runs import former_run_id_of, run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.burying import Burying, buried
from tests.unit.cli.conftest import Cli

__all__ = ["buried"]

AUDIT = ("inbox", "audit", "orders", "--target-dag-id", "handle")


@pytest.fixture(autouse=True)
def orders(emulator: EmulatorServer, buried: Burying) -> str:
    """An inbox of a service whose clock is this machine's, and which lists acknowledged messages."""
    emulator.store.clock.advance(time.time() - emulator.store.clock.now())
    emulator.store.configure(acked_stay_listed=True, quarantine_after=1)
    return emulator.open_inbox("orders")


def audited(cli: Cli, *arguments: str) -> Any:
    shown = cli(*AUDIT, "-o", "json", *arguments)
    assert shown.code == bool(shown.json["missing"]), shown.err
    return shown.json


def put(emulator: EmulatorServer, *ids: str) -> None:
    emulator.put("orders", *({"n": each} for each in ids), ids=list(ids))


def lease(emulator: EmulatorServer, orders: str) -> str:
    """Lease all messages; return the id of the lease."""
    leased: Any = emulator.store.leases.lease(orders, 3600, 100)
    return str(leased["lease_id"])


def acknowledge(emulator: EmulatorServer, orders: str) -> None:
    """Acknowledge all available messages."""
    emulator.store.leases.acknowledge(orders, lease(emulator, orders), None)


def start(orders: str, *ids: str, dag_id: str = "handle") -> None:
    for each in ids:
        DatabaseRuns().start(dag_id, run_id_of(each, orders), {"inbox_id": orders})


def let_list(monkeypatch: pytest.MonkeyPatch, page: Any) -> None:
    """Let the service answer each request for messages with this page."""
    send = WorkflowClient.send

    def listing(client: WorkflowClient, call: Any) -> Any:
        return page if call.name == "list_messages" else send(client, call)

    monkeypatch.setattr(WorkflowClient, "send", listing)


def findings(result: Any) -> dict[str, list[str]]:
    return {name: found["ids"] for name, found in result["findings"].items()}


def test_an_inbox_whose_messages_have_their_runs_lacks_nothing(
    cli: Cli, emulator: EmulatorServer, orders: str
) -> None:
    put(emulator, "a", "b")
    assert cli("inbox", "drain", "orders", "--trigger-dag-id", "handle").code == 0
    put(emulator, "new")

    found = audited(cli)

    assert found.pop("inbox_id") == orders
    assert found == {
        "inbox": "orders",
        "target_dag_ids": ["handle"],
        "dead_letter_dag_ids": [],
        "since": None,
        "listed": 3,
        "by_status": {"acked": 2, "available": 1},
        "started": 2,
        "dead_letter": 0,
        "replayed": 0,
        "waiting": 1,
        "unknown": 0,
        "no_longer_listed": {"runs": 0, "dead_letters": 0},
        "missing": 0,
        "findings": {},
    }


def test_an_acknowledged_message_without_a_run_is_lost(
    cli: Cli, emulator: EmulatorServer, orders: str
) -> None:
    put(emulator, "started", "lost", "dead")
    acknowledge(emulator, orders)
    start(orders, "started")
    start(emulator.open_inbox("another"), "lost")

    found = audited(cli)

    assert findings(found) == {"lost": ["lost", "dead"]}
    assert "another consumer acknowledged it" in found["findings"]["lost"]["cause"]
    shown = cli(*AUDIT)
    assert shown.code == 1
    assert shown.err == "2 messages are missing a run, or need attention.\n"
    assert "lost, dead" in shown.out


def test_a_dead_letter_is_none_of_the_lost(
    cli: Cli, emulator: EmulatorServer, orders: str, buried: Burying
) -> None:
    put(emulator, "dead", "replayed", "doubled")
    acknowledge(emulator, orders)
    start(orders, "doubled")
    for each in ("dead", "replayed", "doubled"):
        buried.bury(each, inbox_id=orders)
    start(orders, "replayed")

    found = audited(cli)

    assert (found["dead_letter"], found["replayed"]) == (1, 1)
    assert findings(found) == {"doubled": ["doubled"]}
    assert found["dead_letter_dag_ids"] == ["dead"]
    assert found["no_longer_listed"] == {"runs": 0, "dead_letters": 0}


def test_only_the_named_dead_letter_dags_count(
    cli: Cli, emulator: EmulatorServer, orders: str, buried: Burying
) -> None:
    put(emulator, "dead")
    acknowledge(emulator, orders)
    buried.bury("dead", inbox_id=orders)

    assert findings(audited(cli, "--dead-letter-dag-id", "handle")) == {"lost": ["dead"]}
    assert findings(audited(cli, "--dead-letter-dag-id", "dead")) == {}


def test_every_target_counts(cli: Cli, emulator: EmulatorServer, orders: str, buried: Burying) -> None:
    buried.database.add_dag("other")
    put(emulator, "a")
    acknowledge(emulator, orders)
    start(orders, "a", dag_id="other")

    assert findings(audited(cli)) == {"lost": ["a"]}
    assert audited(cli, "--target-dag-id", "other")["started"] == 1


def test_a_run_of_version_0_1_counts(cli: Cli, emulator: EmulatorServer, orders: str) -> None:
    put(emulator, "a")
    acknowledge(emulator, orders)
    DatabaseRuns().start("handle", str(former_run_id_of("a")), {})

    assert audited(cli)["started"] == 1


def test_a_quarantined_message_without_a_run_is_found(
    cli: Cli, emulator: EmulatorServer, orders: str
) -> None:
    put(emulator, "a", "b")
    lease(emulator, orders)
    emulator.store.leases.expire(orders)
    start(orders, "b")

    found = audited(cli)

    assert found["by_status"] == {"quarantined": 2}
    assert (found["started"], findings(found)) == (1, {"quarantined": ["a"]})


def test_a_message_that_waits_too_long_is_overdue(cli: Cli, emulator: EmulatorServer, orders: str) -> None:
    emulator.store.clock.advance(-3590)
    put(emulator, "leased")
    lease(emulator, orders)
    put(emulator, "old", "started")
    start(orders, "started")
    emulator.store.clock.advance(3590)
    put(emulator, "new")

    found = audited(cli, "--overdue", "59m")
    assert findings(found) == {"overdue": ["leased", "old"]}
    assert (found["waiting"], found["started"]) == (1, 1)
    assert audited(cli)["waiting"] == 3


def test_only_what_is_new_enough_is_compared(
    cli: Cli, emulator: EmulatorServer, orders: str, buried: Burying
) -> None:
    emulator.store.clock.advance(-7300)
    put(emulator, "old")
    emulator.store.clock.advance(7300)
    put(emulator, "new", "with an old run")
    acknowledge(emulator, orders)
    start(orders, "forgotten", "long ago", "with an old run")
    for each in ("long ago", "with an old run"):
        buried.backdate("handle", run_id_of(each, orders), timedelta(hours=3))

    found = audited(cli, "--since", "2h")

    assert (found["listed"], findings(found)) == (2, {"lost": ["new"]})
    assert found["no_longer_listed"]["runs"] == 1
    assert audited(cli)["no_longer_listed"]["runs"] == 2


def test_runs_of_messages_that_are_listed_no_more_are_counted_only(
    cli: Cli, emulator: EmulatorServer, orders: str, buried: Burying
) -> None:
    put(emulator, "listed", "dead")
    acknowledge(emulator, orders)
    start(orders, "listed", "gone", "gone too")
    start(emulator.open_inbox("another"), "of another inbox")
    buried.bury("dead", inbox_id=orders)
    buried.bury("gone dead", inbox_id=orders)
    DatabaseRuns().start("handle", "manual__2026", {"inbox_id": orders})

    found = audited(cli)

    assert found["no_longer_listed"] == {"runs": 2, "dead_letters": 1}
    assert found["missing"] == 0
    row = [cell.strip() for cell in cli(*AUDIT).out.splitlines()[-1].split(" | ")]
    assert row[:3] == ["no longer listed", "3", "no"]


def test_a_list_of_any_length_is_read(
    cli: Cli, emulator: EmulatorServer, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.store.configure(page_size=3)
    monkeypatch.setattr(dag_runs, "PAGE", 4)
    ids = [f"m{number}" for number in range(10)]
    put(emulator, *ids)
    acknowledge(emulator, orders)
    start(orders, *ids[:-1])

    found = audited(cli)

    assert (found["listed"], found["started"], findings(found)) == (10, 9, {"lost": ["m9"]})
    assert emulator.count("list_messages") == 4


def test_a_message_in_two_pages_counts_once(
    cli: Cli, emulator: EmulatorServer, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(emulator, "a")
    let_list(monkeypatch, {"results": [{"id": "a", "status": "acked"}], "next": "?cursor=x"})

    assert audited(cli)["listed"] == 1


def test_messages_with_other_ids_or_statuses_are_told_apart(
    cli: Cli, emulator: EmulatorServer, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [{"id": 7, "status": "acked"}, {"status": "acked"}, {"id": "a", "status": "frozen"}, {"id": "b"}]
    let_list(monkeypatch, {"results": listed, "next": None})
    start(orders, "7")

    found = audited(cli)

    assert (found["started"], found["unknown"]) == (1, 2)
    assert found["findings"].keys() == {"without_id"}
    assert found["by_status"] == {"acked": 2, "frozen": 1, "None": 1}


def test_a_run_that_is_started_during_the_audit_is_no_fault(
    cli: Cli, emulator: EmulatorServer, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.store.configure(page_size=1)
    put(emulator, "a", "b")
    acknowledge(emulator, orders)
    start(orders, "gone")
    runs_of = dag_runs.runs_of

    def meanwhile(*given: Any, **named: Any) -> Any:
        start(orders, "a", "b", "later")
        return runs_of(*given, **named)

    monkeypatch.setattr(dag_runs, "runs_of", meanwhile)

    found = audited(cli)

    assert (found["started"], found["no_longer_listed"]["runs"]) == (2, 1)


@pytest.mark.parametrize("wrong", [("--overdue", "soon"), ("--since", "soon"), ("--overdue", "2026-01-01")])
def test_a_wrong_option_is_named(cli: Cli, wrong: tuple[str, str]) -> None:
    shown = cli(*AUDIT, *wrong)

    assert (shown.code, shown.out) == (2, "")
    assert wrong[0] in shown.err


def test_an_inbox_that_does_not_exist_is_not_found(cli: Cli) -> None:
    assert cli("inbox", "audit", "unknown", *AUDIT[3:]).code == 3
