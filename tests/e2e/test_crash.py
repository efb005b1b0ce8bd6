"""The short form of ``make crash-test``: everything is killed for a minute, and every message is counted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.sessions import end_sessions

ROOT = Path(__file__).parents[2]
SHORT = ("MESSAGES=60", "MINUTES=1", "SEED=20")


@pytest.mark.nightly
@pytest.mark.usefixtures("redis_alone")
def test_every_recipe_keeps_its_promise_while_everything_is_killed():
    process = subprocess.Popen(
        ["make", "--no-print-directory", "crash-test", *SHORT],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=900)
    finally:
        end_sessions([process.pid], grace=10)
    print(said)
    assert process.returncode == 0, said
    assert "Every promise was kept." in said
