"""The README's snippets are files and commands that other tests run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.sdk import Connection

from airflow_provider_workflow.client.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
EXAMPLES = {path.read_text() for path in (ROOT / "dags_examples").glob("*.py")}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


COMMANDS = {command.strip() for command in blocks("bash")}
RECEIVER = next(command for command in COMMANDS if "airflow_provider_workflow.receiver" in command)
CONNECTION = next(command for command in COMMANDS if command.startswith("export"))
SHELL = next(command for command in COMMANDS if command.startswith("airflow-workflow put"))
RUN_ELSEWHERE = {
    "make demo": "tests/e2e/test_demo.py",
    "make demo ONCE=1": "tests/e2e/test_demo.py",
    "python -m airflow_provider_workflow.emulator --port 8765": "tests/unit/emulator",
    "airflow-workflow doctor": "tests/e2e/test_login.py",
    "airflow-workflow login --conn-id workflow_user": "tests/e2e/test_login.py",
    SHELL: "tests/unit/cli/test_readme_commands.py",
    RECEIVER: "tests/unit/receiver/test_command.py",
    "make crash-test": "tests/e2e/test_crash.py",
    "make soak": "tests/e2e/test_soak.py",
    "make bench": "tests/unit/benchmarks",
    "make test": "this run",
}


@pytest.mark.parametrize("snippet", blocks("python"))
def test_every_python_snippet_is_an_example_dag_that_runs(snippet: str) -> None:
    assert snippet in EXAMPLES


def test_every_example_dag_stands_in_the_readme() -> None:
    assert set(blocks("python")) == EXAMPLES


def test_every_command_is_run_by_a_test() -> None:
    assert COMMANDS - set(RUN_ELSEWHERE) == {CONNECTION, "pip install ."}


def test_the_connection_to_paste_is_accepted() -> None:
    (assignment,) = shlex.split(CONNECTION)[1:]
    name, _, text = assignment.partition("=")
    assert name == "AIRFLOW_CONN_WORKFLOW_DEFAULT"
    connection = Connection.from_json(text, "workflow_default")
    settings = Settings.build(
        host=connection.host,
        login=connection.login,
        password=connection.password,
        extra=connection.extra_dejson,
    )
    assert settings.base_url == json.loads(text)["host"]


def test_the_package_installs_from_a_clone(tmp_path: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([*install, "--target", str(tmp_path), "."], cwd=ROOT, check=True, timeout=120)
    installed = {path.name for path in tmp_path.iterdir()}
    assert "airflow_provider_workflow" in installed
    assert (tmp_path / "airflow_provider_workflow" / "py.typed").exists()
    assert not installed & {"tests", "tools", "dags_examples"}
