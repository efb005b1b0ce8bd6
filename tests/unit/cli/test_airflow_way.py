"""``airflow workflow``: the same commands in Airflow's own command line; connections from its database."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer

pytestmark = pytest.mark.slow

Typed = Callable[..., "subprocess.CompletedProcess[str]"]
OURS = ["-m", "airflow_provider_workflow.cli.main"]
AIRFLOWS = ["-m", "airflow", "workflow"]
WAYS = [pytest.param(OURS, id="airflow-workflow"), pytest.param(AIRFLOWS, id="airflow workflow")]
SECRET = "secret-of-a-stored-connection"


@pytest.fixture(scope="module")
def typed(migrated: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    """Type a command into a shell of an Airflow whose database alone knows the connection."""

    # On Python 3.14 Airflow's command line warns of the deprecated names that it uses.
    env = {**migrated, "PYTHONWARNINGS": "ignore::PendingDeprecationWarning"}

    def type_in(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)

    with EmulatorServer(client_secret=SECRET) as emulator:
        emulator.open_inbox("orders")
        right = emulator.connection()
        wrong = {**right, "password": "another-secret"}
        file = tmp_path_factory.mktemp("connections") / "connections.json"
        file.write_text(json.dumps({"workflow_default": right, "workflow_wrong": wrong}))
        imported = type_in("-m", "airflow", "connections", "import", str(file))
        assert imported.returncode == 0, imported.stderr
        yield type_in


@pytest.mark.parametrize("way", WAYS)
def test_connections_of_the_metadata_database_are_used_and_a_fault_is_one_sentence(
    typed: Typed, way: list[str]
) -> None:
    shown = typed(*way, "inbox", "show", "orders", "--output", "json")
    refused = typed(*way, "token", "--conn-id", "workflow_wrong")

    assert (shown.returncode, shown.stderr) == (0, "")
    assert json.loads(shown.stdout)["name"] == "orders"
    assert (refused.returncode, refused.stdout) == (5, "")
    assert refused.stderr.startswith("Error: ")
    assert len(refused.stderr.splitlines()) == 1
    assert "another-secret" not in refused.stderr
