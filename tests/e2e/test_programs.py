"""The short forms of ``make crash-test`` and ``make soak``, one after the other: both need all of a Redis."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT
from tools.sessions import end_sessions

pytestmark = pytest.mark.nightly


@pytest.fixture
def make_alone() -> Iterator[Callable[..., str]]:
    """
    Makes a target that empties the one Redis database that the environment names; returns what it says.

    Tests with such a target wait for each other, in several checkouts too.
    """

    def make(*arguments: str, seconds: float) -> str:
        process = subprocess.Popen(
            ["make", "--no-print-directory", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        finally:
            end_sessions([process.pid], grace=10)
        print(output)
        assert process.returncode == 0, output
        return output

    with (Path(tempfile.gettempdir()) / f"workflow-test-redis-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield make


def test_every_recipe_keeps_its_promise_while_everything_is_killed(make_alone):
    """For a minute; every message is counted."""
    output = make_alone("crash-test", "MESSAGES=60", "MINUTES=1", "SEED=20", seconds=900)

    assert "Every promise was kept." in output


def test_no_count_grows_while_messages_come_and_tokens_are_renewed(make_alone):
    """A minute is enough to count sessions, sockets and open files."""
    output = make_alone("soak", "MINUTES=1.25", "RATE=2", seconds=600)

    assert "Nothing grows." in output
    assert "Every message had its one run." in output
