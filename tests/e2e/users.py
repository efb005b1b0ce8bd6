"""Users of the service whose tokens Airflow keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.client.stores import logged_in

STORE = (
    "import json, sys; from airflow_provider_workflow.hooks.workflow import WorkflowHook;"
    "given = json.load(sys.stdin);"
    "WorkflowHook('workflow_user').store_user_tokens(given, given.get('asked_at'))"
)


def store(emulator: EmulatorServer, env: Mapping[str, str], **times: float) -> dict[str, str]:
    """
    Store the tokens of a user who has just logged in, as the command line would: with the database.

    :param env: of Airflow's processes, with the connection ``workflow_user``.
    :param times: ``expires_in`` and ``asked_at`` of the tokens.
    """
    tokens = asdict(logged_in(emulator))
    given = {name: tokens[name] for name in ("access_token", "refresh_token")}
    subprocess.run(
        [sys.executable, "-c", STORE],
        input=json.dumps({**given, **times}),
        env=dict(env),
        text=True,
        check=True,
        timeout=60,
    )
    return given
