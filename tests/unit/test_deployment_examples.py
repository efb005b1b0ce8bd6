"""The files of the page on deployment: they stand on it, and systemd, Airflow and the provider take them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from airflow.cli.cli_parser import get_parser
from airflow.models import Connection
from airflow.secrets.local_filesystem import LocalFilesystemBackend

from airflow_provider_workflow.config import OPTIONS
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.documents import DOCS, blocks

FOLDER = DOCS / "examples" / "deployment"
PAGE = "docs/deployment.md"
PROCESSES = ("api-server", "scheduler", "dag-processor", "triggerer")
UNIT = FOLDER / "airflow@.service"
VARIABLE = "AIRFLOW_CONN_WORKFLOW_DEFAULT"


def assigned(name: str) -> dict[str, str]:
    """The variables of a file that systemd or compose reads."""
    pairs = (line.partition("=") for line in (FOLDER / name).read_text().splitlines())
    return {name: "".join(shlex.split(value)) for name, _, value in pairs}


def address_of(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> str:
    """The base URL that the provider takes from a connection."""
    monkeypatch.setattr(WorkflowHook, "get_connection", lambda *_: connection)
    return WorkflowHook().settings.base_url


def test_each_file_stands_on_the_page() -> None:
    shown = [block for language in ("docker", "ini", "yaml") for block in blocks(PAGE, language)]
    hidden = {"connections.json"}
    assert sorted(path.name for path in FOLDER.iterdir() if path.read_text() not in shown) == sorted(hidden)


def test_compose_gives_the_connection_and_a_fernet_key_to_every_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services = yaml.safe_load((FOLDER / "docker-compose.override.yaml").read_text())["services"]
    processes = {f"airflow-{name.replace('api-server', 'apiserver')}" for name in PROCESSES}
    assert set(services) == {*processes, "airflow-worker", "airflow-init", "airflow-cli"}
    named = {VARIABLE: VARIABLE, "AIRFLOW__CORE__FERNET_KEY": "AIRFLOW_FERNET_KEY"}
    given = {name: f"${{{variable}:?is missing in the file .env}}" for name, variable in named.items()}
    assert all(service["environment"] == given for service in services.values())
    assert set(named.values()) < set(assigned("compose.env"))
    connection = Connection.from_json(assigned("compose.env")[VARIABLE])
    assert address_of(connection, monkeypatch) == "https://api.example.com"


def test_the_values_for_helm_have_the_types_of_the_schema_of_the_chart() -> None:
    values = yaml.safe_load((FOLDER / "values.yaml").read_text())
    text = ("airflowVersion", "defaultAirflowRepository", "defaultAirflowTag", "extraEnvFrom")
    assert set(values) == {*text, "triggerer", "apiServer", "config"}
    assert all(isinstance(values[name], str) for name in text)
    assert [values[name] for name in ("triggerer", "apiServer")] == [{"replicas": 2}] * 2
    assert all(isinstance(value, str | int | bool) for value in values["config"]["workflow"].values())


def test_helm_gives_the_connection_and_the_image_to_every_process_of_airflow() -> None:
    values = yaml.safe_load((FOLDER / "values.yaml").read_text())
    assert yaml.safe_load(values["extraEnvFrom"]) == [{"secretRef": {"name": "workflow-connection"}}]
    assert set(values["config"]["workflow"]) <= set(OPTIONS)
    version = values["airflowVersion"]
    assert values["defaultAirflowTag"].startswith(f"{version}-")
    assert f"FROM apache/airflow:{version}-" in (FOLDER / "Dockerfile").read_text()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    # The program and the user of the page do not exist here.
    text = UNIT.read_text().replace("/opt/airflow/venv/bin/airflow", "/bin/true")
    (tmp_path / "airflow@.service").write_text(text.replace("User=airflow", "User=root"))
    said = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "airflow@triggerer.service")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, [line for line in said.stderr.splitlines() if str(tmp_path) in line]) == (0, [])


@pytest.mark.parametrize("process", PROCESSES)
def test_airflow_has_the_command_of_each_unit(process: str) -> None:
    (command,) = re.findall(r"^ExecStart=\S+/airflow (.+)$", UNIT.read_text(), re.MULTILINE)
    assert get_parser().parse_args(shlex.split(command.replace("%i", process))).subcommand == process


def test_the_secrets_backend_of_the_units_has_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    kwargs = json.loads(assigned("airflow.env")["AIRFLOW__SECRETS__BACKEND_KWARGS"])
    path = FOLDER / Path(kwargs["connections_file_path"]).name
    connection = LocalFilesystemBackend(connections_file_path=str(path)).get_connection("workflow_default")
    assert connection is not None
    assert address_of(connection, monkeypatch) == "https://api.example.com"
