"""The commands of ``docs/tutorial.md``, in one shell: they start an Airflow, and kill its triggerer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
import requests

from tests.e2e.conftest import SETTINGS
from tests.e2e.stage import PATIENCE_SECONDS
from tests.unit.documents import ROOT, blocks, lines_of
from tools.airflow_api import AirflowAPI, Json
from tools.sessions import end_sessions, members

PAGE = "docs/tutorial.md"
BOUND_SECONDS = 900
"""Longer than all waits of the test together."""
END_SECONDS = 60
"""For the processes to end that SIGTERM ends."""
DONE = "the block of commands is done"


class Shell:
    """
    A shell in which a reader pastes one block of commands after the other.

    :param folder: where the blocks are stored; also the home of the reader.
    :param env: environment variables.
    """

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder = folder
        self.process = subprocess.Popen(
            ["bash"],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._bound = Timer(BOUND_SECONDS, self.close)
        self._bound.start()
        # As in a terminal: each job has a process group. And a command that fails ends the shell.
        self._write("set -m -e")

    def run(self, block: str) -> str:
        """Run a block of commands, and return what was printed until its end."""
        script = self._folder / "block.sh"
        script.write_text(block)
        # From a file: a command that reads its standard input would otherwise read the commands after it.
        self._write(f". {script} < /dev/null; echo; echo '{DONE}'")
        printed: list[str] = []
        assert self.process.stdout
        for line in self.process.stdout:
            if line.strip() == DONE:
                return "".join(printed)
            printed.append(line)
        raise AssertionError(f"the shell ended in\n{block}\n{''.join(printed)}")

    def close(self) -> None:
        """End everything that was started in the shell."""
        self._bound.cancel()
        end_sessions([self.process.pid], grace=5)

    def _write(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()


@pytest.fixture
def ports() -> dict[str, int]:
    """Free ports in place of those that the page, or Airflow by default, uses."""
    names = ("8765", "8080", "8793", "8794")
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    ports_by_name = {name: socket_.getsockname()[1] for name, socket_ in zip(names, sockets, strict=True)}
    for socket_ in sockets:
        socket_.close()
    return ports_by_name


@pytest.fixture
def shell(tmp_path: Path, ports: dict[str, int]) -> Iterator[Shell]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    api = f"http://localhost:{ports['8080']}"
    env |= SETTINGS | {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
        # The package of this checkout, whatever is installed.
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "localhost,127.0.0.1",
        "no_proxy": "localhost,127.0.0.1",
        "AIRFLOW__API__PORT": str(ports["8080"]),
        "AIRFLOW__API__BASE_URL": api,
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(ports["8793"]),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(ports["8794"]),
    }
    shell = Shell(tmp_path, env)
    yield shell
    shell.close()


def commands(ports: dict[str, int]) -> list[str]:
    """The blocks of the page, without the installation, and with the ports of the test."""
    first, *others = blocks(PAGE, "bash")
    install, rest = first.split("\n", 1)
    assert install.startswith("pip install")
    return [block.replace("8765", str(ports["8765"])) for block in (rest, *others)]


@pytest.mark.nightly
def test_a_reader_of_the_tutorial_kills_the_triggerer_and_loses_nothing(
    shell: Shell, ports: dict[str, int], tmp_path: Path
) -> None:
    home = tmp_path / "workflow-quickstart"
    api = AirflowAPI(f"http://localhost:{ports['8080']}", diagnose=lambda: log_of(home))

    def counts() -> Json:
        inbox = f"http://127.0.0.1:{ports['8765']}/_emulator/inboxes/signups"
        numbers: Json = requests.get(inbox, timeout=30).json()["counts"]
        return numbers

    def finished(number: int) -> bool:
        try:
            states = [run["state"] for run in api.dag_runs("welcome")]
        except requests.ConnectionError:
            return False
        return states == ["success"] * number and counts()["acked"] == number

    start, look, kill, start_again, count, stop = commands(ports)
    shell.run(start)
    api.wait_until(lambda: finished(2), PATIENCE_SECONDS, "two runs that succeeded")
    assert shell.run(look).replace("|", " ").split().count("success") == 2

    assert shell.run(kill).count("available") == 4
    assert counts()["available"] == 4
    assert len(api.dag_runs("welcome")) == 2

    shell.run(start_again)
    api.wait_until(lambda: finished(6), PATIENCE_SECONDS, "six runs that succeeded")
    output = shell.run(count)
    assert output.replace("|", " ").split().count("success") == 6
    assert '"acked":6' in output
    messages = [run["conf"]["message"] for run in api.dag_runs("welcome")]
    assert len({message["id"] for message in messages}) == 6
    assert {message["payload"]["name"] for message in messages} == names_put(start, kill)

    shell.run(stop)
    wait_for_end_of_jobs(shell)


def wait_for_end_of_jobs(shell: Shell) -> None:
    """Wait until the shell has no processes any more."""
    deadline = time.monotonic() + END_SECONDS
    while (pids := set(members(shell.process.pid)) - {shell.process.pid}) and time.monotonic() < deadline:
        time.sleep(0.3)
    assert not pids, [Path(f"/proc/{pid}/cmdline").read_text() for pid in pids]


def names_put(*of: str) -> set[str]:
    """The names in the messages that the commands put."""
    puts = [line for block in of for line in lines_of(block) if line.startswith("airflow-workflow put")]
    return {part.split('"')[3] for line in puts for part in line.split("'")[1::2]}


def log_of(home: Path) -> str:
    """The ends of what Airflow wrote."""
    texts: dict[str, Any] = {path.name: path.read_text(errors="replace") for path in home.glob("*.log")}
    return "\n".join(f"--- {name}:\n{text[-6000:]}" for name, text in texts.items())
