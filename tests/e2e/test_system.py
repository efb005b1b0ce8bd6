"""``tests/system``, which is for a real service, passes with the emulator in its place."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.e2e.examples import EXAMPLES
from tests.system.service import CONNECTION_VARIABLE, EVENT_VARIABLE, SUBSCRIPTION_VARIABLE
from tests.system.test_examples import INBOXES, RUN

ROOT = Path(__file__).parents[2]
SUBSCRIPTION = {"app_key": "shop", "action_key": "new_order", "inputs": {}}


@pytest.mark.nightly
def test_the_system_tests_pass_with_the_emulator() -> None:
    with EmulatorServer() as emulator:
        put = [sys.executable, "-m", "airflow_provider_workflow.cli.main", "put", "--url", emulator.base_url]
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            CONNECTION_VARIABLE: emulator.connection_json(),
            SUBSCRIPTION_VARIABLE: json.dumps(SUBSCRIPTION),
            EVENT_VARIABLE: f'{shlex.join(put)} "$INBOX" "$(cat)"',
        }
        process = subprocess.run(
            [sys.executable, "-m", "pytest", "tests/system", "-q", "-rs"],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        assert process.returncode == 0, process.stdout[-5000:] + process.stderr[-5000:]
        assert "skipped" not in process.stdout or "needs Airflow" in process.stdout
        inboxes = [file for file in RUN if INBOXES[file] and EXAMPLES[file].runs_here]
        assert emulator.count("delete_inbox") == len(inboxes)
