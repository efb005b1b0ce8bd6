from __future__ import annotations

import subprocess
import sys
import time

from tools.sessions import members

SHELL = "(trap '' TERM; sleep 60) & sleep 60"
"""A process with a child that ignores SIGTERM."""


def _await(condition) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_is_guarded_by_a_watchdog_does_not_outlive_a_killed_owner():
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, SHELL], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    assert owner.stdout
    session = int(owner.stdout.readline())
    _await(lambda: len(members(session)) == 3)
    owner.kill()
    owner.wait()
    _await(lambda: not members(session))


_OWNER = """
import subprocess, sys, time
from tools.sessions import Watchdog
watchdog = Watchdog(grace=0.2)
session = subprocess.Popen(["sh", "-c", sys.argv[1]], start_new_session=True).pid
watchdog.add(session)
print(session, flush=True)
time.sleep(60)
"""
