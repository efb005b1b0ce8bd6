"""Process sessions, in which a real Airflow is started and ended.

Airflow's processes fork, and put children into process groups of their own, so killing a group misses
running tasks. They never leave their *session*: each component gets one, whose id is the process id of its
first process, and ending the session ends all descendants, including orphans.

Run as a module, this is the watchdog: it reads session ids, one per line, until its standard input closes,
and then ends them. Its standard input closes when the process that started the sessions ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import psutil


def members(session: int) -> list[int]:
    """Return the process ids of a session, without zombies."""
    pids = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) == session and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                pids.append(pid)
    return pids


def send_signal(pids: Collection[int], sig: int) -> None:
    """Send a signal to each process that still exists."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)


def end_sessions(sessions: Collection[int], grace: float) -> None:
    """End sessions: SIGTERM to the leaders, which end their children, then SIGKILL to the others.

    :param grace: seconds between the two; a second Ctrl-C ends the wait.
    """

    def leaders() -> list[int]:
        return [session for session in sessions if session in members(session)]

    try:
        send_signal(leaders(), signal.SIGTERM)
        deadline = time.monotonic() + grace
        while leaders() and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        while pids := [pid for session in sessions for pid in members(session)]:
            send_signal(pids, signal.SIGKILL)
            time.sleep(0.02)


class Watchdog:
    """Ends sessions when this process ends, even by SIGKILL.

    :param grace: seconds from SIGTERM to SIGKILL.
    """

    def __init__(self, grace: float = 10) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.sessions", str(grace)],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def add(self, session: int) -> None:
        """Add a session."""
        assert self._process.stdin
        self._process.stdin.write(f"{session}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the sessions, and the watchdog itself."""
        self._process.communicate()


if __name__ == "__main__":
    end_sessions([int(line) for line in sys.stdin], grace=float(sys.argv[1]))
