"""``dead-letters list`` and ``show``: found in the database, the newest first, payloads only where asked."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from airflow import settings
from airflow.models.dagrun import DagRun
from sqlalchemy import create_engine, event
from sqlalchemy.engine import Engine

from airflow_provider_workflow.client import any_json
from airflow_provider_workflow.database import dag_runs
from airflow_provider_workflow.database.runs import DatabaseRuns
from airflow_provider_workflow.dispatch.dead_letters import Reason
from airflow_provider_workflow.dispatch.runs import run_id_of
from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.burying import INBOX_ID, Burying, buried
from tests.unit.cli.conftest import Cli

__all__ = ["buried"]


def listed(cli: Cli, *arguments: str) -> list[str]:
    shown = cli("dead-letters", "list", "-o", "json", *arguments)
    assert shown.code == 0, shown.err
    return [each["message_id"] for each in shown.json]


def test_each_is_listed_with_everything_but_its_message(cli: Cli, buried: Burying) -> None:
    run_id = buried.bury("a", "a secret", cause="value_error (status 400)")

    shown = cli("dead-letters", "list", "-o", "json")

    assert shown.code == 0
    [found] = shown.json
    assert found.pop("time")
    assert found == {
        "message_id": "a",
        "connection_id": "workflow_default",
        "inbox_id": INBOX_ID,
        "created_at": "2026-01-01T00:00:00Z",
        "delivery_count": 3,
        "reason": "rejected",
        "cause": "value_error (status 400)",
        "target_dag_id": "handle",
        "dag_id": "dead",
        "run_id": run_id,
        "state": "queued",
        "replays": [],
    }
    assert "a secret" not in cli("dead-letters", "list").out + shown.out


def test_a_table_shows_inbox_and_dag_in_80_columns(cli: Cli, buried: Burying) -> None:
    message_id = "7b0d2f7e-9d3c-4b53-8a55-3c1f0b8f1a11"
    buried.bury(message_id, age=timedelta(hours=3, minutes=5), reason=Reason.EXPRESSION)
    buried.bury("again", age=timedelta(hours=4))
    DatabaseRuns().start("handle", run_id_of("again", INBOX_ID), {"inbox_id": INBOX_ID})

    head, _, *rows = cli("dead-letters", "list").out.splitlines()

    assert [cell.strip() for cell in head.split("|")] == ["message id", "age", "inbox", "status", "DAG"]
    assert [cell.strip() for cell in rows[0].split("|")] == [
        *(message_id, "3 h", INBOX_ID[:8], "expression", "handle")
    ]
    assert [cell.strip() for cell in rows[1].split("|")][3] == "replayed"
    assert len(rows[0]) <= 80


def test_the_newest_is_first_and_a_limit_says_that_there_are_more(cli: Cli, buried: Burying) -> None:
    for number in range(5):
        buried.bury(f"m{number}", age=timedelta(hours=number))

    assert listed(cli) == ["m0", "m1", "m2", "m3", "m4"]
    assert listed(cli, "--limit", "2") == ["m0", "m1"]
    assert "more than 2 dead letters" in cli("dead-letters", "list", "--limit", "2").err
    assert cli("dead-letters", "list", "--limit", "5").err == ""


def test_options_select(cli: Cli, buried: Burying) -> None:
    buried.database.add_dag("other_dead")
    buried.bury("new")
    buried.bury("old", age=timedelta(hours=3))
    buried.bury("unmatched", reason=Reason.UNMATCHED, target=None)
    buried.bury("elsewhere", dag_id="other_dead")
    DatabaseRuns().start("dead", "manual__2026", {"message_id": "no dead letter"})
    DatabaseRuns().start("dead", "workflow-_dead--x", {"message_id": "of another prefix"})

    assert set(listed(cli)) == {"new", "old", "unmatched", "elsewhere"}
    assert set(listed(cli, "--since", "2h")) == {"new", "unmatched", "elsewhere"}
    assert set(listed(cli, "--since", "2020-01-01T00:00Z")) == {"new", "old", "unmatched", "elsewhere"}
    assert listed(cli, "--reason", "unmatched") == ["unmatched"]
    assert listed(cli, "--dag-id", "other_dead") == ["elsewhere"]
    assert len(listed(cli, "--dag-id", "other_dead", "--dag-id", "dead")) == 4


def test_connection_and_inbox_select(cli: Cli, buried: Burying, emulator: EmulatorServer) -> None:
    orders, other = emulator.open_inbox("orders"), "00000000-0000-4000-8000-00000000ffff"
    buried.bury("a", inbox_id=orders)
    buried.bury("b", inbox_id=other)
    buried.bury("c", inbox_id=orders, connection_id="another")
    here = ("--conn-id", "workflow_default")

    assert set(listed(cli, *here)) == {"a", "b"}
    assert set(listed(cli, "--inbox", orders)) == {"a", "c"}
    assert listed(cli, *here, "--inbox", "orders") == ["a"]
    assert cli("dead-letters", "show", "c", *here).code == 3
    replayed = cli("dead-letters", "replay", *here, "--inbox", other, "-o", "json").json
    assert replayed["started"] == {"count": 1, "ids": ["b"]}
    missing = cli("dead-letters", "list", "--conn-id", "missing")
    assert (missing.code, missing.out) == (5, "")
    unnamed = cli("dead-letters", "list", "--inbox", "orders")
    assert (unnamed.code, "give --conn-id too" in unnamed.err) == (2, True)


def test_a_dead_letter_that_a_person_made_is_none(cli: Cli, buried: Burying) -> None:
    run_id = buried.forge("a", user="bob")

    assert listed(cli) == []
    assert cli("dead-letters", "show", run_id).code == 3
    assert cli("dead-letters", "replay", "--all", "-o", "json").json["started"]["count"] == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(("--limit", "0"), "--limit"), (("--since", "soon"), "--since"), (("--since", "2x"), "--since")],
)
def test_a_wrong_option_is_named(cli: Cli, buried: Burying, arguments: tuple[str, ...], named: str) -> None:
    shown = cli("dead-letters", "list", *arguments)

    assert (shown.code, shown.out) == (2, "")
    assert named in shown.err


def test_pages_hold_each_dead_letter_once_even_if_they_are_as_old(
    cli: Cli, buried: Burying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dag_runs, "PAGE", 2)
    for number in range(7):
        buried.bury(f"m{number}")
    with dag_runs.airflow_internals.database_session() as session:
        moment = session.query(DagRun).first().run_after
        session.query(DagRun).update({"run_after": moment})

    found = listed(cli)

    assert found == [f"m{number}" for number in reversed(range(7))]


def test_no_query_of_a_list_reads_messages(cli: Cli, buried: Burying) -> None:
    buried.bury("a", "a secret")
    queries: list[str] = []

    def note(*given: Any) -> None:
        queries.append(given[2])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        cli("dead-letters", "list")
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    read = [each.replace("JSON_EXTRACT(dag_run.conf", "") for each in queries if "FROM dag_run" in each]
    assert len(read) == 2
    assert [each for each in read if "dag_run.conf" in each] == []


def test_a_run_of_a_message_counts_in_whatever_dag_it_is(cli: Cli, buried: Burying) -> None:
    buried.database.add_dag("other")
    for number, target in enumerate(("handle", None)):
        buried.bury(f"m{number}", target=target)
        DatabaseRuns().start("other", run_id_of(f"m{number}", INBOX_ID), {"inbox_id": INBOX_ID})
    DatabaseRuns().start("other", run_id_of("m0", "another inbox"), {"inbox_id": "another inbox"})

    found = cli("dead-letters", "list", "-o", "json").json

    assert [each["replays"] for each in found] == [[{"dag_id": "other", "state": "queued"}]] * 2


@pytest.mark.parametrize("message_id", ["plain", "\ud800 caf\u00e9\0", "x" * 225, "x" * 300])
def test_the_run_of_a_message_with_any_id_is_found(cli: Cli, buried: Burying, message_id: str) -> None:
    run_id = buried.bury(message_id)
    DatabaseRuns().start("handle", run_id_of(message_id, INBOX_ID), {"inbox_id": INBOX_ID})

    assert cli("dead-letters", "list", "-o", "json").json[0]["replays"]
    assert cli("dead-letters", "show", run_id).code == 0


def test_show_prints_the_exact_message(cli: Cli, buried: Burying) -> None:
    payload = {"nul": "a\0b", "half": "\ud800", "big": 2**70, "deep": [[1e300, -0.0]], "caf\u00e9": ""}
    run_id = buried.bury("a", payload)

    for name in ("a", run_id):
        shown = cli("dead-letters", "show", name, "-o", "json")
        assert shown.code == 0
        assert shown.json["message"]["payload"] == payload
        assert json.loads(shown.json["message_json"]) == shown.json["message"]
        assert shown.json["cause"] == "a made-up cause"
    table, _, message = cli("dead-letters", "show", "a").out.partition("\n\n")
    assert "a made-up cause" in table
    assert json.loads(message)["payload"] == payload


def test_show_prints_a_message_that_is_too_deep_to_decode(cli: Cli, buried: Burying) -> None:
    text = "[" * 100_000 + "]" * 100_000
    buried.bury("a", any_json.decode(text))

    shown = cli("dead-letters", "show", "a", "-o", "json")

    assert shown.code == 0
    assert shown.json["message"] is None
    assert text in shown.json["message_json"]


def test_one_that_does_not_exist_is_not_found(cli: Cli, buried: Burying) -> None:
    buried.bury("a")

    shown = cli("dead-letters", "show", "b")

    assert (shown.code, shown.out) == (3, "")
    assert "no such dead letter" in shown.err


def test_an_id_of_two_messages_is_told_apart_by_run_id(cli: Cli, buried: Burying) -> None:
    run_ids = [buried.bury("a"), buried.bury("a", inbox_id="another")]

    shown = cli("dead-letters", "show", "a")

    assert shown.code == 2
    assert all(each in shown.err for each in run_ids)
    assert cli("dead-letters", "show", run_ids[1], "-o", "json").json["inbox_id"] == "another"


def test_a_run_whose_conf_is_no_dead_letter_is_shown_as_it_is(cli: Cli, buried: Burying) -> None:
    DatabaseRuns().start("dead", "workflow__dead__x", {"message_json": 1})

    assert listed(cli) == [None]
    shown = cli("dead-letters", "show", "workflow__dead__x", "-o", "json")
    assert (shown.code, shown.json["message"], shown.json["message_json"]) == (0, None, 1)


def test_a_database_that_is_not_migrated_is_told(cli: Cli, tmp_path: Any, database: Any) -> None:
    before = settings.Session.session_factory.kw["bind"]
    settings.Session.remove()
    settings.Session.configure(bind=create_engine(f"sqlite:///{tmp_path}/empty.db"))
    try:
        shown = cli("dead-letters", "list")
    finally:
        settings.Session.remove()
        settings.Session.configure(bind=before)
    assert shown.code == 1
    assert "metadata database is unreachable, or not migrated" in shown.err
