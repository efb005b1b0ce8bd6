"""Users of the service: they log in, and Airflow keeps their tokens."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.cli.browser import Browser
from tests.unit.client.stores import logged_in

SCRIPT = [str(Path(sys.executable).with_name("airflow-workflow"))]
SECONDS = 90

STORE = (
    "import json, sys; from airflow_provider_workflow.hooks.workflow import WorkflowHook;"
    "WorkflowHook('workflow_user').store_user_tokens(json.load(sys.stdin))"
)


def store(emulator: EmulatorServer, env: Mapping[str, str], expires_in: float) -> dict[str, str]:
    """
    Store the tokens of a user who has just logged in, as the command line would: with the database.

    :param env: of Airflow's processes, with the connection ``workflow_user``.
    :param expires_in: seconds.
    """
    tokens = asdict(logged_in(emulator))
    secrets = {name: tokens[name] for name in ("access_token", "refresh_token")}
    subprocess.run(
        [sys.executable, "-c", STORE],
        input=json.dumps({**secrets, "expires_in": expires_in}),
        env=dict(env),
        text=True,
        check=True,
        timeout=60,
    )
    return secrets


def log_in(conn_id: str, env: Mapping[str, str]) -> tuple[str, str]:
    """Log in by the command line, and approve in a browser; return the address, and what else was printed."""
    with subprocess.Popen(
        [*SCRIPT, "login", "--conn-id", conn_id],
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines, address = [], ""
        while not address.startswith("http"):  # after the log lines of the level DEBUG
            lines.append(address)
            address = process.stdout.readline()
            assert address, process.communicate()
        address = address.strip()
        rest, errors = process.communicate(Browser().decide(address) + "\n", timeout=SECONDS)
    assert process.returncode == 0, errors
    assert "Logged in" in errors
    return address, "".join(lines) + rest + errors
