"""What ``airflow providers`` says of this provider can be imported, whichever of its commands says it."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

NAME = "airflow-provider-workflow"
PACKAGE = "airflow_provider_workflow"
EVERY_COMMAND = """
import contextlib, io, json, sys
from airflow.cli.cli_config import PROVIDERS_COMMANDS
from airflow.cli.cli_parser import get_parser

said = {}
for command in PROVIDERS_COMMANDS:
    flags = {flag for argument in command.args for flag in argument.flags}
    if "--output" not in flags:
        continue
    words = ["providers", command.name, "--output", "json"]
    words += [sys.argv[1], "--full"] if "provider_name" in flags else []
    arguments = get_parser().parse_args(words)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        arguments.func(arguments)
    said[command.name] = json.loads(out.getvalue() or "[]")
print(json.dumps(said))
"""
SAY_SOMETHING = {"behaviours", "configs", "get", "hooks", "links", "list", "queues", "triggers", "widgets"}
"""The commands of Airflow 3.3 that have something to say of a provider such as this one."""
FOR_USERS = re.compile(r"Workflow\w+(Operator|Sensor|Trigger)$")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each command says of all providers, in one process, as starting Airflow takes seconds."""
    folder = str(tmp_path_factory.mktemp("airflow"))
    home = {**os.environ, "AIRFLOW_HOME": folder, "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}
    command = [sys.executable, "-W", "ignore", "-c", EVERY_COMMAND, NAME]
    done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from texts(list(value.values()))
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


def ours(value: Any) -> set[str]:
    """The classes, functions and modules of this package that are named there."""
    return {text for text in texts(value) if text.startswith(f"{PACKAGE}.")}


def test_every_command_that_lists_such_things_lists_ours(said: dict[str, Any]) -> None:
    speaking = {
        name for name, answer in said.items() if {NAME, "workflow"} & set(texts(answer)) or ours(answer)
    }
    assert speaking == SAY_SOMETHING & set(said)


def test_whatever_is_named_can_be_imported(said: dict[str, Any]) -> None:
    named = ours(said)
    assert f"{PACKAGE}.hooks.workflow.WorkflowHook" in named
    for name in sorted(named):
        assert pkgutil.resolve_name(name), name


def test_no_error_of_an_import_is_hidden_in_the_list_of_hooks(said: dict[str, Any]) -> None:
    (hook,) = (each for each in said["hooks"] if each["connection_type"] == "workflow")
    assert hook == {
        "connection_type": "workflow",
        "class": f"{PACKAGE}.hooks.workflow.WorkflowHook",
        "conn_id_attribute_name": "workflow_conn_id",
        "package_name": NAME,
        "hook_name": "Workflow",
    }


@pytest.mark.since(3, 3, "what some modules import")
def test_everything_that_users_import_is_named(said: dict[str, Any]) -> None:
    (provider,) = said["get"]
    named = ours(provider)
    root = Path(sys.modules[PACKAGE].__file__ or "").parent
    for room in ("operators", "sensors", "triggers"):
        for file in (root / room).glob("*.py"):
            module = f"{PACKAGE}.{room}.{file.stem}"
            assert (module in named) is has_something_for_users(module), module


def has_something_for_users(module: str) -> bool:
    """Whether a class of it is one that DAGs use; what is named so is."""
    members = vars(pkgutil.resolve_name(module)).values()
    own = [each for each in members if isinstance(each, type) and each.__module__ == module]
    return any(FOR_USERS.match(each.__name__) for each in own)
