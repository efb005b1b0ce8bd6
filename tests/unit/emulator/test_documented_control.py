"""The requests of ``docs/emulator.md``, sent as they stand there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from airflow_provider_workflow.emulator.server import EmulatorServer
from tests.unit.documents import command, lines_of

pytestmark = pytest.mark.slow

REQUESTS = lines_of(command("docs/emulator.md", "curl"))


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_every_request_is_answered(emulator: EmulatorServer) -> None:
    env = {**os.environ, "NO_PROXY": "*", "no_proxy": "*"}
    for line in REQUESTS:
        asked = line.replace("http://127.0.0.1:8765", emulator.base_url).replace("curl -s", "curl -sf")
        done = subprocess.run(["bash", "-c", asked], env=env, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, line
        assert isinstance(json.loads(done.stdout), dict)
