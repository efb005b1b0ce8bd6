"""The commands of the README's section "Command line", as they stand there."""

from __future__ import annotations

import shlex

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.conftest import Cli
from tests.unit.cli.database import Database
from tests.unit.test_readme import SHELL


def test_the_commands_of_the_readme_do_what_it_says(
    cli: Cli, emulator: EmulatorServer, database: Database
) -> None:
    database.add_dag("handle_order")
    put, messages, drain, token = ([*shlex.split(line)[1:]] for line in SHELL.splitlines())

    assert cli(*put).code == 0
    assert cli(*messages).out.count("available") == 2
    assert cli(*drain).code == 0
    payloads = [conf["message"]["payload"] for conf in database.runs("handle_order").values()]
    assert sorted(payload["number"] for payload in payloads) == [1, 2]
    assert {each["status"] for each in emulator.summary("orders")["messages"]} == {"acked"}
    assert cli(*token).json["access_token"].startswith("***")
