"""Does, at random moments, what happens to processes; and starts again what ended, as a supervisor would."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import psutil

from tests.crash.holding import Holding
from tests.crash.service import FAULTS, NAME, Service
from tests.crash.targets import Targets
from tools.local_airflow import LocalAirflow
from tools.sessions import send_signal

RESTART_SECONDS = (0.5, 4.0)
"""How long an ended process stays ended."""
LOOK_SECONDS = 0.1
HOLDERS = 0.4
"""Part of the acts that wait for a task that holds messages, to kill it."""
HOLDER_SECONDS = 5.0

ACTIONS = {"kill -9": 6, "kill -9 with its children": 4, "SIGTERM": 3, "stop and continue": 2}
"""What is done to a process, and how often in relation to each other."""
PART_WEIGHTS = {
    "emulator": 2,
    "api-server": 1,
    "dag-processor": 0.5,
    "scheduler": 2,
    "triggerer": 4,
    "worker": 3,
}
"""How often each kind of process is chosen."""
FAULTS_PER_ACTION = 0.25
"""How many of the acts are faults of the service, and not of a process."""


class Saboteur:
    """
    :param airflow: whose processes, by their names, are sabotaged; the emulator is one of them.
    :param service: the emulator.
    :param seed: what is done to what, and when, follows from it (what it meets does not).
    :param interval: mean seconds between two actions.
    :param stopped_seconds: how long a process is stopped: longer than a lease.
    :param holding: which processes hold leased messages.
    :param memory: MB that a task may take; None for any number.
    """

    def __init__(
        self,
        airflow: LocalAirflow,
        service: Service,
        seed: int,
        interval: float,
        stopped_seconds: float,
        holding: Holding,
        memory: float | None = None,
    ) -> None:
        self.airflow = airflow
        self.service = service
        self.done: Counter[str] = Counter()
        self.kills = 0
        """How many processes were killed while they held leased messages."""
        self.restarts = 0
        self._holding = holding
        self._memory = memory
        self._random = random.Random(seed)
        self._interval = interval
        self._stopped_seconds = stopped_seconds
        dags_folder = Path(airflow.env["AIRFLOW__CORE__DAGS_FOLDER"])
        self._targets = Targets(dags_folder, random.Random(seed), time.monotonic(), interval)
        self._over = threading.Event()
        self._frozen: dict[str, float] = {}
        self._ended_at: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="saboteur", daemon=True)
        self._fault: BaseException | None = None
        self._sabotages = True

    def __enter__(self) -> Saboteur:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    def rest(self) -> None:
        """Sabotage no more, continue what is stopped, mend the targets, and go on starting what ended."""
        self._sabotages = False

    def check(self) -> None:
        """:raises BaseException: what ended the saboteur's thread, if anything did."""
        if self._fault:
            raise self._fault

    def _run(self) -> None:
        try:
            next_strike_at = time.monotonic() + self._pause()
            while not self._over.wait(LOOK_SECONDS):
                self._supervise()
                self._break_or_mend()
                self._limit_memory()
                if self._sabotages and time.monotonic() >= next_strike_at:
                    self._strike()
                    next_strike_at = time.monotonic() + self._pause()
        except BaseException as fault:
            self._fault = fault

    def _pause(self) -> float:
        return self._random.expovariate(1 / self._interval)

    def _strike(self) -> None:
        if self._random.random() < FAULTS_PER_ACTION:
            fault = self._random.choice(sorted(FAULTS))
            self.service.fault(fault)
            self.done[f"service: {fault}"] += 1
            return
        names = sorted(name for name in self.airflow.names if self.airflow.alive(name))
        names = [name for name in names if name not in self._frozen]
        if not names:
            return
        if self._random.random() < HOLDERS and (pid := self._next_holder()) is not None:
            self._kill([pid])
            self.done["task process that holds messages: kill -9"] += 1
            return
        name = self._random.choices(names, [PART_WEIGHTS[_kind(part_name)] for part_name in names])[0]
        part, pids = self._random.choice(self._parts(name))
        action = self._random.choices(list(ACTIONS), list(ACTIONS.values()))[0]
        if action == "stop and continue":
            self._freeze(name)
        elif action == "SIGTERM":
            send_signal(pids[:1], signal.SIGTERM)
        else:
            is_group = action.endswith("children") and part != "task process"
            self._kill(self.airflow.pids(name) if is_group else pids[:1])
        self.done[f"{part if action != 'stop and continue' else _kind(name)}: {action}"] += 1

    def _next_holder(self) -> int | None:
        """The next task process that holds leased messages; None if there is none within seconds."""
        deadline = time.monotonic() + HOLDER_SECONDS
        while time.monotonic() < deadline:
            pids = [pid for pid in self._holding.pids() if _is_task(pid)]
            if pids:
                return self._random.choice(sorted(pids))
            time.sleep(0.02)
        return None

    def _kill(self, pids: list[int]) -> None:
        holders = [pid for pid in pids if self._holding.holds(pid, is_trigger=not _is_task(pid))]
        send_signal(pids, signal.SIGKILL)
        self.kills += bool(holders)

    def _limit_memory(self) -> None:
        """Kill a task that takes too much memory, as the limit of a container would."""
        if self._memory is None:
            return
        for pid in self._holding.pids():
            with contextlib.suppress(psutil.Error):
                megabytes = psutil.Process(pid).memory_info().rss / 2**20
                if _is_task(pid) and megabytes > self._memory:
                    self._kill([pid])
                    self.done["task process: killed for its memory"] += 1

    def _break_or_mend(self) -> None:
        if not self._sabotages:
            self._targets.mend()
        elif (kind := self._targets.turn(time.monotonic())) is not None:
            self.done[f"target DAGs: {kind}"] += 1

    def _parts(self, name: str) -> list[tuple[str, list[int]]]:
        """What of a component can be hit by itself: its first process, the trigger runner, a task."""
        leader = self.airflow.leader(name)
        parts = [(_kind(name), [leader])]
        below = [pid for pid in self.airflow.pids(name) if pid != leader]
        if _kind(name) == "triggerer" and below:
            parts.append(("trigger runner", [max(below)]))
        tasks = [pid for pid in below if _is_task(pid)]
        if tasks:
            parts.append(("task process", [self._random.choice(sorted(tasks))]))
        return parts

    def _freeze(self, name: str) -> None:
        send_signal(self.airflow.pids(name), signal.SIGSTOP)
        self._frozen[name] = time.monotonic() + self._stopped_seconds

    def _supervise(self) -> None:
        now = time.monotonic()
        for name, until in list(self._frozen.items()):
            if now >= until or not self._sabotages:
                send_signal(self.airflow.pids(name), signal.SIGCONT)
                del self._frozen[name]
        for name in self.airflow.names:
            if self.airflow.alive(name):
                self._ended_at.pop(name, None)
                continue
            back_at = self._ended_at.setdefault(name, now + self._random.uniform(*RESTART_SECONDS))
            if now >= back_at:
                self.airflow.restart(name)
                self.restarts += 1
                if name == NAME:
                    self.service.slow_down()


def _kind(name: str) -> str:
    return name.rstrip("0123456789").rstrip("-")


def _is_task(pid: int) -> bool:
    """Whether a process runs a task or supervises one; Airflow puts that into the title of the process."""
    try:
        title = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False
    return title.startswith("airflow worker -- ") or "supervisor:" in title
