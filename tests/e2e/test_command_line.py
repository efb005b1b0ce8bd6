"""``inbox drain`` beside a real Airflow: one run for each message, whoever is killed or starts some too."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.e2e.stage import PATIENCE_SECONDS, Inbox, Stage

pytestmark = pytest.mark.together
OURS = ("-m", "airflow_provider_workflow.cli.main")
AIRFLOWS = ("-m", "airflow", "workflow")


class Shell:
    """A shell on the machine of an Airflow."""

    def __init__(self, stage: Stage) -> None:
        self._airflow = stage.airflow
        self._typed: list[subprocess.Popen[str]] = []

    def drain(
        self,
        inbox: Inbox,
        way: tuple[str, ...] = OURS,
        stderr: int = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """Start a drain; it goes on beside the test."""
        self._airflow.wait_for_dags(["target"])
        command = [*way, "inbox", "drain", inbox.name, "--trigger-dag-id", "target", "--output", "json"]
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=self._airflow.home,
            env=self._airflow.env,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        self._typed.append(process)
        return process

    def close(self) -> None:
        for process in self._typed:
            process.kill()
            process.communicate(timeout=10)


@pytest.fixture(scope="module")
def shell(stage: Stage) -> Iterator[Shell]:
    shell = Shell(stage)
    yield shell
    shell.close()


def ended(process: subprocess.Popen[str]) -> dict[str, int]:
    """The numbers of messages that a drain printed, which succeeded."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    return {name: json.loads(out)[name]["count"] for name in ("started", "existing", "rejected")}


def test_a_drain_starts_one_run_for_each_message_and_finds_it_again(stage, shell, inbox):
    ids = inbox.put(*[{"n": n} for n in range(12)])
    assert ended(shell.drain(inbox)) == {"started": 12, "existing": 0, "rejected": 0}
    stage.wait_until_succeeded(inbox, ids)
    assert inbox.all_acknowledged()
    assert inbox.lease_counts == [1]

    inbox.put(*[{"again": n} for n in range(12)], ids=ids)
    more = inbox.put({"n": 12}, {"n": 13})
    assert ended(shell.drain(inbox)) == {"started": 2, "existing": 12, "rejected": 0}
    stage.wait_until_succeeded(inbox, ids + more)
    assert inbox.all_acknowledged()


def test_a_drain_by_airflow_shows_its_progress_at_a_terminal_and_a_script_gets_json(stage, shell, inbox):
    ids = inbox.put(*[{"n": n} for n in range(12)])
    terminal, end = pty.openpty()
    process = shell.drain(inbox, way=AIRFLOWS, stderr=end)
    os.close(end)
    assert ended(process) == {"started": 12, "existing": 0, "rejected": 0}
    shown = all_of(terminal)
    assert "12 messages: 12 started, 0 existing, 0 rejected" in shown
    assert f"Inbox {inbox.name}: the inbox has no more messages." in shown
    stage.check_one_run_each(inbox, ids)


def all_of(terminal: int) -> str:
    """What was written to a terminal whose other end is closed."""
    written = b""
    with suppress(OSError):  # Linux says so at the end
        while more := os.read(terminal, 4096):
            written += more
    os.close(terminal)
    return written.decode()


def test_a_drain_and_an_operator_start_one_run_between_them(stage, shell, inbox):
    ids = inbox.put({"n": 1}, {"n": 2})
    assert stage.start("dispatcher", inbox).succeeds()["started"]["count"] == 2
    inbox.put({"n": 1}, {"n": 2}, ids=ids)
    later = inbox.put({"n": 3})
    assert ended(shell.drain(inbox)) == {"started": 1, "existing": 2, "rejected": 0}
    inbox.put({"n": 3}, ids=later)
    assert stage.start("dispatcher", inbox).succeeds()["existing"]["count"] == 1
    by_operator, _, by_command = (run["conf"] for run in stage.runs_of(inbox))
    assert set(by_operator) == set(by_command)
    assert set(by_operator["message"]) == set(by_command["message"])
    stage.check_one_run_each(inbox, ids + later)


def test_a_drain_killed_between_start_and_acknowledgement_starts_no_second_run(stage, shell, inbox):
    # The first lease is one message; the acknowledgement of the second lease is held.
    ids = inbox.put({"n": 1}, {"n": 2}, {"n": 3})
    inbox.fault("hold", "ack", when="before", after=1)
    process = shell.drain(inbox)
    stage.until(inbox.held, "the acknowledgement")
    stage.check_one_run_each(inbox, ids)
    process.kill()
    process.wait(10)
    inbox.release_held(drop=True)
    inbox.expire_leases()
    assert ended(shell.drain(inbox)) == {"started": 0, "existing": 2, "rejected": 0}
    stage.wait_until_succeeded(inbox, ids)
    assert inbox.all_acknowledged()


def test_a_drain_killed_half_way_starts_one_run_for_each_message_in_the_end(stage, shell, inbox):
    ids = inbox.put(*[{"n": n} for n in range(100)])
    process = shell.drain(inbox)
    stage.until(lambda: len(stage.runs_of(inbox)) > 1, "a run of the second lease")
    process.kill()
    process.wait(10)
    before = len(stage.runs_of(inbox))
    assert before < len(ids), "it had started all of them before it could be killed"
    assert inbox.counts["leased"] == len(ids) - 1, "the first lease was one message, which is acknowledged"
    inbox.expire_leases()
    result = ended(shell.drain(inbox))
    assert result == {"started": len(ids) - before, "existing": before - 1, "rejected": 0}
    stage.check_one_run_each(inbox, ids)
    assert inbox.all_acknowledged()


def test_two_drains_of_the_same_messages_at_once_start_one_run_each(stage, shell, inbox):
    ids = inbox.put(*[{"n": n} for n in range(30)])
    inbox.put(*[{"n": n} for n in range(30)], ids=ids)
    drains = [shell.drain(inbox) for _ in range(2)]
    results = [ended(process) for process in drains]
    assert sum(result["started"] for result in results) == 30
    assert sum(result["rejected"] for result in results) == 0
    stage.check_one_run_each(inbox, ids)
    assert inbox.all_acknowledged()
