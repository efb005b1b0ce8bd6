"""``inbox drain`` beside a real Airflow: one run for each message, whoever is killed or starts some too."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.e2e.stage import PATIENCE_SECONDS, Inbox, Stage

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
        dag_id: str = "target",
        way: tuple[str, ...] = OURS,
        stderr: int = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """Start a drain; it goes on beside the test."""
        self._airflow.wait_for_dags(["target"])
        command = [*way, "inbox", "drain", inbox.name, "--trigger-dag-id", dag_id, "--output", "json"]
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


@pytest.fixture
def shell(stage: Stage) -> Iterator[Shell]:
    shell = Shell(stage)
    yield shell
    shell.close()


def ended(process: subprocess.Popen[str], code: int = 0) -> Any:
    """What a drain printed; and that it ended with this exit code."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code, err
    return json.loads(out) if out else None


def counts(result: Any) -> dict[str, int]:
    return {name: result[name]["count"] for name in ("started", "existing", "rejected")}


@pytest.mark.parametrize("way", [OURS, AIRFLOWS], ids=["console script", "airflow"])
def test_a_drain_starts_one_run_for_each_message_and_finds_it_again(stage, shell, inbox, way):
    ids = inbox.put(*[{"n": n} for n in range(12)])
    assert counts(ended(shell.drain(inbox, way=way))) == {"started": 12, "existing": 0, "rejected": 0}
    stage.wait_until_succeeded(inbox, ids)
    assert inbox.all_acknowledged()
    assert inbox.lease_counts == [1]

    inbox.put(*[{"again": n} for n in range(12)], ids=ids)
    more = inbox.put({"n": 12}, {"n": 13})
    assert counts(ended(shell.drain(inbox, way=way))) == {"started": 2, "existing": 12, "rejected": 0}
    stage.wait_until_succeeded(inbox, ids + more)
    assert inbox.all_acknowledged()


@pytest.mark.parametrize("way", [OURS, AIRFLOWS], ids=["console script", "airflow"])
def test_a_drain_shows_its_progress_at_a_terminal_and_a_script_gets_json(stage, shell, inbox, way):
    ids = inbox.put(*[{"n": n} for n in range(12)])
    terminal, end = pty.openpty()
    process = shell.drain(inbox, way=way, stderr=end)
    os.close(end)
    assert counts(ended(process)) == {"started": 12, "existing": 0, "rejected": 0}
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
    assert counts(ended(shell.drain(inbox))) == {"started": 1, "existing": 2, "rejected": 0}
    inbox.put({"n": 3}, ids=later)
    assert stage.start("dispatcher", inbox).succeeds()["existing"]["count"] == 1
    by_operator, _, by_command = (run["conf"] for run in stage.runs_of(inbox))
    assert set(by_operator) == set(by_command)
    assert set(by_operator["message"]) == set(by_command["message"])
    stage.check_one_run_each(inbox, ids + later)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_drain_killed_between_start_and_acknowledgement_starts_no_second_run(stage, shell, inbox, when):
    # The first lease is one message; the acknowledgement of the second lease is held.
    ids = inbox.put({"n": 1}, {"n": 2}, {"n": 3})
    inbox.fault("hold", "ack", when=when, after=1)
    process = shell.drain(inbox)
    stage.until(inbox.held, "the acknowledgement")
    stage.check_one_run_each(inbox, ids)
    process.kill()
    process.wait(10)
    inbox.release_held(drop=True)
    inbox.expire_leases()
    existing = 2 if when == "before" else 0
    assert counts(ended(shell.drain(inbox))) == {"started": 0, "existing": existing, "rejected": 0}
    stage.wait_until_succeeded(inbox, ids)
    assert inbox.all_acknowledged()


def test_a_drain_killed_half_way_starts_one_run_for_each_message_in_the_end(stage, shell, inbox):
    ids = inbox.put(*[{"n": n} for n in range(100)])
    process = shell.drain(inbox)
    stage.until(lambda: stage.runs_of(inbox), "the first run")
    process.kill()
    process.wait(10)
    before = len(stage.runs_of(inbox))
    assert before < len(ids), "it had started all of them before it could be killed"
    assert inbox.counts["leased"] == len(ids) - 1, "the first lease was one message, which is acknowledged"
    inbox.expire_leases()
    result = counts(ended(shell.drain(inbox)))
    assert result == {"started": len(ids) - before, "existing": before - 1, "rejected": 0}
    stage.check_one_run_each(inbox, ids)
    assert inbox.all_acknowledged()


def test_two_drains_of_the_same_messages_at_once_start_one_run_each(stage, shell, inbox):
    ids = inbox.put(*[{"n": n} for n in range(30)])
    inbox.put(*[{"n": n} for n in range(30)], ids=ids)
    drains = [shell.drain(inbox) for _ in range(2)]
    results = [counts(ended(process)) for process in drains]
    assert sum(result["started"] for result in results) == 30
    assert sum(result["rejected"] for result in results) == 0
    stage.check_one_run_each(inbox, ids)
    assert inbox.all_acknowledged()


def test_a_message_that_the_dag_refuses_is_named_and_the_others_start(stage, shell, inbox):
    good = inbox.put({"amount": 1}, {"amount": 2})
    (refused,) = inbox.put({"no": "amount"})
    stage.airflow.wait_for_dags(["picky"])
    process = shell.drain(inbox, "picky")
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert refused in err
    stage.check_one_run_each(inbox, good, "picky")
    assert inbox.messages[refused]["status"] == "leased"


def test_a_missing_dag_is_said_before_anything_is_leased(stage, shell, inbox):
    inbox.put({"n": 1})
    assert ended(shell.drain(inbox, "no_such_dag"), code=3) is None
    assert inbox.lease_counts == [0]
