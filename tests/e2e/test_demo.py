"""The demo of the README, ending by itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "tools.demo"]
BOUND_SECONDS = 800
"""Longer than the demo waits for anything."""
IGNORING_CTRL_C = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.nightly
def test_the_demo_with_chaos_ends_with_the_verdict_that_each_message_had_one_run() -> None:
    process = subprocess.run(
        [*COMMAND, "--once", "--chaos"], cwd=ROOT, capture_output=True, text=True, timeout=BOUND_SECONDS
    )

    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.splitlines()[-1] == "60 messages, 60 runs, 0 lost, 0 twice, 5 kills"
    kills = re.findall(r"^\d+ s: killed the (\w+) .*\(pid \d+\)", process.stdout, re.MULTILINE)
    assert kills == ["triggerer", "worker", "scheduler", "triggerer", "worker"], process.stdout
    # At least one kill hit a process that had leased messages.
    assert "leased again" in process.stdout


def test_an_interrupted_demo_shows_the_verdict_and_leaves_nothing_behind() -> None:
    # As a shell starts a process in the background.
    ignoring = [sys.executable, "-c", IGNORING_CTRL_C, *COMMAND]
    with subprocess.Popen(ignoring, cwd=ROOT, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        bound = Timer(BOUND_SECONDS / 2, demo.terminate)
        bound.start()
        lines = iter(demo.stdout.readline, "")
        home = next(re.search(r"Logs: (\S+)/", line)[1] for line in lines if "Logs:" in line)  # type: ignore[index]
        next(line for line in lines if "run succeeded" in line)
        descendants = _processes_with(home)
        demo.send_signal(signal.SIGINT)
        *_, last = lines
        code = demo.wait(60)
        bound.cancel()

    assert descendants, "Airflow was running"
    assert re.fullmatch(r"\d+ messages, \d+ runs, 0 lost, 0 twice.*", last.strip())
    assert code == 0
    assert _processes_with(home) == []
    assert not (ROOT / home).exists()


def _processes_with(home: str) -> list[int]:
    """The processes whose home of Airflow is this one."""
    pids = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("AIRFLOW_HOME") == str(ROOT / home):
                pids.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return [pid for pid in pids if pid != os.getpid()]
