"""``inbox drain`` beside a real Airflow: one run for each message, whoever is killed or starts some too."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.e2e.stage import PATIENCE_SECONDS, Inbox, Stage

pytestmark = pytest.mark.together
OURS = ("-m", "airflow_provider_workflow.cli.main")
AIRFLOWS = ("-m", "airflow", "workflow")


@pytest.fixture(scope="module")
def drain(stage: Stage) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a drain on the machine of the Airflow, which goes on beside the test."""
    stage.airflow.wait_for_dags(["target"])
    processes: list[subprocess.Popen[str]] = []

    def start(
        inbox: Inbox, way: tuple[str, ...] = OURS, stderr: int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        command = [*way, "inbox", "drain", inbox.name, "--trigger-dag-id", "target", "--output", "json"]
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=stage.airflow.home,
            env=stage.airflow.env,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate(timeout=10)


def counts_at_end(process: subprocess.Popen[str]) -> dict[str, int]:
    """The numbers of messages that a drain printed, which succeeded."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    return {name: json.loads(out)[name]["count"] for name in ("started", "existing", "rejected")}


def test_a_drain_by_airflow_says_at_a_terminal_why_it_ended_and_a_script_gets_json(stage, drain, inbox):
    ids = inbox.put(*[{"n": n} for n in range(12)])
    terminal, end = pty.openpty()
    process = drain(inbox, way=AIRFLOWS, stderr=end)
    os.close(end)
    assert counts_at_end(process) == {"started": 12, "existing": 0, "rejected": 0}
    output = all_of(terminal)
    assert f"Inbox {inbox.name}: the inbox has no more messages." in output
    stage.check_one_run_each(inbox, ids)


def all_of(terminal: int) -> str:
    """What was written to a terminal whose other end is closed."""
    output = b""
    with suppress(OSError):  # Linux says so at the end
        while more := os.read(terminal, 4096):
            output += more
    os.close(terminal)
    return output.decode()


def test_a_drain_and_an_operator_start_one_run_between_them(stage, drain, inbox):
    ids = inbox.put({"n": 1}, {"n": 2})
    assert stage.start("dispatcher", inbox).succeeds()["started"]["count"] == 2
    inbox.put({"n": 1}, {"n": 2}, ids=ids)
    later = inbox.put({"n": 3})
    assert counts_at_end(drain(inbox)) == {"started": 1, "existing": 2, "rejected": 0}
    inbox.put({"n": 3}, ids=later)
    assert stage.start("dispatcher", inbox).succeeds()["existing"]["count"] == 1
    by_operator, _, by_command = (run["conf"] for run in stage.runs_of(inbox))
    assert set(by_operator) == set(by_command)
    assert set(by_operator["message"]) == set(by_command["message"])
    stage.check_one_run_each(inbox, ids + later)


def test_a_drain_killed_between_start_and_acknowledgement_starts_no_second_run(stage, drain, inbox):
    # The first lease is one message; the acknowledgement of the second lease is held.
    ids = inbox.put({"n": 1}, {"n": 2}, {"n": 3})
    inbox.fault("hold", "ack", when="before", after=1)
    process = drain(inbox)
    stage.until(inbox.held_requests, "the acknowledgement")
    stage.check_one_run_each(inbox, ids)
    process.kill()
    process.wait(10)
    inbox.release_held(drop=True)
    inbox.expire_leases()
    later = inbox.put({"n": 4})
    assert counts_at_end(drain(inbox)) == {"started": 1, "existing": 2, "rejected": 0}
    stage.wait_until_succeeded(inbox, ids + later)
    assert inbox.all_acknowledged()
