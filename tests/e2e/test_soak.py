"""The short form of ``make soak``: a minute is enough to count sessions, sockets and open files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.sessions import end_sessions

ROOT = Path(__file__).parents[2]
SHORT = ("MINUTES=1.25", "RATE=2")


@pytest.mark.nightly
@pytest.mark.usefixtures("redis_alone")
def test_no_count_grows_while_messages_come_and_tokens_are_renewed():
    process = subprocess.Popen(
        ["make", "--no-print-directory", "soak", *SHORT],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=600)
    finally:
        end_sessions([process.pid], grace=10)
    print(said)
    assert process.returncode == 0, said
    assert "Nothing grows." in said
    assert "Every message had its one run." in said
