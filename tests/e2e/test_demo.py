"""The demo of the README, ending by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_ends_with_every_message_having_had_its_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.demo", "--once"], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.strip().splitlines()[-1]
    assert "put: 20" in last
    assert "run succeeded: 20" in last
    assert "acknowledged: 20" in last
