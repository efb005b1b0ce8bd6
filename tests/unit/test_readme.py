"""What users paste first: the shortest DAG, the installation, the quickstart, the connection."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.sdk import Connection

from airflow_provider_workflow.client.api import authorization_url
from airflow_provider_workflow.client.settings import Settings
from tests.unit.documents import ROOT, blocks, command, lines_of

CONNECTION = "docs/connection.md"
ADD = "airflow connections add"
QUICKSTART = "pip install . --constraint"
"""What blocks of commands begin with."""


def connection_in(block: str) -> str:
    """The value that an ``export`` of a connection gives it."""
    (assignment,) = shlex.split(block)[1:]
    name, _, text = assignment.partition("=")
    assert name == "AIRFLOW_CONN_WORKFLOW_DEFAULT"
    return text


def settings_of(text: str) -> Settings:
    """What our client makes of a connection in JSON."""
    connection = Connection.from_json(text, "pasted")
    return Settings.build(
        host=connection.host,
        login=connection.login,
        password=connection.password,
        extra=connection.extra_dejson,
    )


def test_the_first_dag_has_8_lines_of_code() -> None:
    docstring, *code = filter(None, blocks("README.md", "python")[0].splitlines())
    assert docstring.startswith('"""')
    assert len(code) <= 8


def test_the_connection_to_paste_is_accepted() -> None:
    text = connection_in(command(CONNECTION, "export"))
    settings = settings_of(text)
    assert settings.base_url == json.loads(text)["host"]


def test_the_connection_of_a_user_is_accepted() -> None:
    *_, text = shlex.split(command("docs/user-tokens.md", ADD))
    settings = settings_of(text)
    assert settings.grant == "refresh_token"
    assert authorization_url(settings, scope="external", state="x").startswith(
        "https://api.example.com/v2/authorize?"
    )


def test_the_command_adds_the_same_connection() -> None:
    *_, text = shlex.split(command(CONNECTION, ADD))
    assert json.loads(text) == json.loads(connection_in(command(CONNECTION, "export")))


@pytest.mark.slow
def test_the_package_installs_from_a_clone(tmp_path: Path) -> None:
    first, *_ = lines_of(command("README.md", QUICKSTART))
    pip, *arguments = shlex.split(first)
    assert pip == "pip"
    # Without its dependencies, which are installed already.
    alone = ["--no-deps", "--no-build-isolation", "--quiet", "--target", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", *arguments, *alone], cwd=ROOT, check=True, timeout=120)
    installed = {path.name for path in tmp_path.iterdir()}
    assert "airflow_provider_workflow" in installed
    assert (tmp_path / "airflow_provider_workflow" / "py.typed").exists()
    assert not installed & {"benchmarks", "docs", "tests", "tools", "dags_examples"}


def test_the_quickstart_has_at_most_8_commands_and_is_that_of_the_tutorial() -> None:
    quickstart = command("README.md", QUICKSTART)
    assert command("docs/tutorial.md", QUICKSTART) == quickstart
    assert len([line for line in lines_of(quickstart) if not line.startswith(" ")]) <= 8
