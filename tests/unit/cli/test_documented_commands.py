"""The commands of ``docs/command-line.md``, and those that add a connection, as they stand there."""

from __future__ import annotations

import os
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.burying import Burying, buried
from tests.unit.cli.conftest import Cli
from tests.unit.cli.database import Database
from tests.unit.documents import command, lines_of
from tests.unit.test_readme import ADD, CONNECTION
from tools.airflow_settings import create_database, environment, sqlite

__all__ = ["buried"]

PAGE = "docs/command-line.md"
DEAD_LETTERS = "docs/dead-letters.md"


def arguments(block: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in lines_of(block)]


def test_messages_are_put_listed_and_drained(cli: Cli, emulator: EmulatorServer, database: Database) -> None:
    database.add_dag("handle_order")
    put, messages, drain, token = arguments(command(PAGE, "airflow-workflow put"))

    assert cli(*put).code == 0
    assert cli(*messages).out.count("available") == 2
    assert cli(*drain).code == 0
    payloads = [conf["message"]["payload"] for conf in database.runs("handle_order").values()]
    assert sorted(payload["number"] for payload in payloads) == [1, 2]
    assert {each["status"] for each in emulator.summary("orders")["messages"]} == {"acked"}
    assert cli(*token).json["access_token"].startswith("***")


def test_an_inbox_is_made_used_and_deleted(cli: Cli, emulator: EmulatorServer) -> None:
    for each in arguments(command(PAGE, "airflow-workflow inbox ensure")):
        done = cli(*each)
        assert done.code == 0, done.err
        assert done.out
    assert emulator.count("lease") == 1
    assert cli("inbox", "list", "--output", "json").json == []


def test_dead_letters_are_listed_shown_and_replayed(cli: Cli, buried: Burying) -> None:
    commands = arguments(command(DEAD_LETTERS, "airflow-workflow dead-letters"))
    message_id = commands[1][2]
    buried.bury(message_id)

    shown = [cli(*each) for each in commands]

    assert [each.code for each in shown] == [0] * len(commands)
    assert [message_id in each.out for each in shown] == [True] * len(commands)
    assert len(buried.replays()) == 1


@pytest.mark.slow
def test_the_connections_to_paste_are_added(tmp_path: Path) -> None:
    env = environment(tmp_path, tmp_path / "dags", 8080, {})
    env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = sqlite(tmp_path)
    create_database(sys.executable, tmp_path, env)
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    commands = "\n".join(command(page, ADD) for page in (CONNECTION, "docs/user-tokens.md"))
    subprocess.run(["bash", "-e", "-c", commands], env=env, check=True, timeout=120)
    with sqlite3.connect(tmp_path / "airflow.db") as database:
        rows = database.execute("SELECT conn_id, conn_type, host, login FROM connection").fetchall()
    for conn_id in ("workflow_default", "workflow_user"):
        assert (conn_id, "workflow", "https://api.example.com", "your-client-id") in rows
