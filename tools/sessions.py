"""Process sessions: the unit in which a real Airflow is started and ended.

Airflow's processes fork, and put what they fork into process groups of its own; a kill of the group
therefore misses running tasks. None of them leaves its *session*, so each component gets one, named by the
process id of its first process, and ending the session ends every descendant, orphans included.

Run as a module, this is the watchdog: it reads session ids, one a line, until its standard input closes,
and then ends them. Whoever started them holds the other end and has only to die, however suddenly.
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
    """Return the process ids of a session, the dead that nobody has waited for excluded."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) == session and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
    return found


def send_signal(pids: Collection[int], sig: int) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)


def end_sessions(sessions: Collection[int], grace: float) -> None:
    """End sessions: SIGTERM to their leaders, who end their children, then SIGKILL to what is left.

    :param grace: seconds between the two. An interruption (a second Ctrl-C) cuts them short.
    """

    def leaders() -> list[int]:
        return [session for session in sessions if session in members(session)]

    try:
        send_signal(leaders(), signal.SIGTERM)
        deadline = time.monotonic() + grace
        while leaders() and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        while left := [pid for session in sessions for pid in members(session)]:
            send_signal(left, signal.SIGKILL)
            time.sleep(0.02)


class Watchdog:
    """Ends the sessions given to it when this process dies, even by SIGKILL.

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
        """Take a session under guard."""
        assert self._process.stdin
        self._process.stdin.write(f"{session}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End what is left of the sessions, and the watchdog itself."""
        self._process.communicate()


if __name__ == "__main__":
    end_sessions([int(line) for line in sys.stdin], grace=float(sys.argv[1]))
