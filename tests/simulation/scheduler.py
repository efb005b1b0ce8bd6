"""
Simulated time, and processes that act in it.

Each process is a greenlet, and only one of them runs at a time. A process that calls anything outside pauses
for as long as the call takes; what happens meanwhile, and whether it survives that, follows from the seed.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet

START = 1_767_225_600.0
"""The time at the beginning of each history: 2026-01-01, UTC."""
KILL_AFTER_TERM_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL, as the supervisor of a task leaves it."""


class Killed(BaseException):
    """``kill -9``: from now on no call of the process has an effect."""


class TaskTimeout(BaseException):
    """What Airflow raises in a task that exceeds its ``execution_timeout``."""


@dataclass
class Doom:
    """
    What happens to a process.

    :param step: in which of its pauses, from 1.
    :param kind: ``kill``, ``term``, ``timeout`` or ``freeze``.
    :param seconds: how long it is frozen.
    """

    step: int
    kind: str
    seconds: float = 0.0


@dataclass(eq=False)
class Process(greenlet):
    """
    A process of Airflow: one try of a task, or a trigger.

    :param name: for the history.
    :param doom: what happens to it, if anything.
    :param knowledge: its ``Knowledge``, by which the rules judge it.
    :param on_term: called by SIGTERM; what it raises is raised in the process.
    :param on_end: called once: with its result or its exception, or with ``Killed``.
    :param harmed: the first thing that disturbed it, or empty.
    :param stopped: whether it was killed, frozen or ended.
    :param delayed_until: end of the last time that it was frozen, or waited for a slow call.
    :param turn: how often it has gone on.
    :param cpu_seconds: CPU time that it has used.
    """

    name: str
    doom: Doom | None = None
    knowledge: Any = None
    on_term: Callable[[], None] = lambda: None
    on_end: Callable[[Any], None] = lambda outcome: None
    on_frozen: Callable[[float], None] = lambda seconds: None
    harmed: str = ""
    stopped: bool = False
    delayed_until: float = 0.0
    frozen_until: float = 0.0
    steps: int = 0
    killed: bool = False
    ended: bool = False
    signal: BaseException | None = None
    turn: int = 0
    cpu_seconds: float = 0.0

    def harm(self, cause: str) -> None:
        """Note that something disturbed this process."""
        self.harmed = self.harmed or cause

    def end(self, outcome: Any) -> None:
        """The process is over; only the first call counts."""
        if not self.ended:
            self.ended = True
            self.on_end(outcome)


class Scheduler:
    """
    Time, and everything that is due.

    :param random: draws the moment within a pause at which a doom strikes.
    """

    def __init__(self, random: Random) -> None:
        self.now = START
        self.random = random
        self.hub = getcurrent()
        self.processes: list[Process] = []
        self._due: list[tuple[float, int, Callable[[], Any]]] = []
        self._number = itertools.count()

    # What happens

    def at(self, moment: float, act: Callable[[], Any]) -> None:
        """Let something happen at a moment."""
        heapq.heappush(self._due, (moment, next(self._number), act))

    def after(self, seconds: float, act: Callable[[], Any]) -> None:
        self.at(self.now + seconds, act)

    def play(self, until: float, over: Callable[[], bool]) -> None:
        """Let everything that is due happen, until ``over`` says so or the moment ``until`` is reached."""
        while self._due and not over():
            moment, _, act = heapq.heappop(self._due)
            if moment > until:
                return
            self.now = moment
            act()

    # Processes

    def start(self, process: Process, work: Callable[[], Any]) -> None:
        """Start a process now."""

        def run() -> None:
            try:
                outcome = work()
            except Killed:
                outcome = Killed()
            except BaseException as error:
                outcome = error
            process.end(outcome)
            # An exception and the frames of its traceback refer to each other.
            outcome = None

        process.run, process.parent = run, self.hub
        self.processes.append(process)
        self._wake(process, self.now)

    @property
    def is_any_frozen(self) -> bool:
        return any(process.frozen_until > self.now and not process.ended for process in self.processes)

    def kill(self, process: Process, cause: str = "kill -9") -> None:
        """End a process at once."""
        if process.ended:
            return
        process.harm(cause)
        process.stopped = process.killed = True
        if process is not getcurrent():
            self.at(self.now, partial(_throw, process))
        process.end(Killed())

    def end(self) -> None:
        """End all processes, in no time and without any effect."""
        for process in self.processes:
            process.killed = process.ended = True
            _throw(process)

    def pause(self, seconds: float) -> None:
        """Let time pass in the running process, while the other processes go on."""
        process: Any = getcurrent()
        if process.killed:
            raise Killed
        process.steps += 1
        doom = process.doom
        if doom is not None and process.steps >= doom.step:
            process.doom = None
            self.after(seconds * self.random.random(), lambda: self._strike(process, doom))
        self._wake(process, self.now + seconds)
        self.hub.switch()
        if process.killed:
            raise Killed
        if process.signal is not None:
            error, process.signal = process.signal, None
            raise error

    def _strike(self, process: Process, doom: Doom) -> None:
        """Let the doom of a process happen, unless the process has ended."""
        if process.ended:
            return
        if doom.kind == "kill":
            self.kill(process)
        elif doom.kind == "freeze":
            process.harm("frozen")
            process.stopped = True
            process.frozen_until = process.delayed_until = self.now + doom.seconds
            process.on_frozen(doom.seconds)
        elif doom.kind == "term":
            self._terminate(process)
        else:
            self._interrupt(process, TaskTimeout())

    def _terminate(self, process: Process) -> None:
        """Send SIGTERM, and SIGKILL some seconds later."""
        process.harm("SIGTERM")
        process.stopped = True
        try:
            process.on_term()
        except BaseException as error:
            self._interrupt(process, error)
        self.after(KILL_AFTER_TERM_SECONDS, lambda: self.kill(process, "SIGKILL after SIGTERM"))

    def _interrupt(self, process: Process, error: BaseException) -> None:
        """Raise an exception in a process, wherever it is."""
        process.harm(type(error).__name__)
        process.stopped = True
        process.signal = error
        self._wake(process, self.now)

    def _wake(self, process: Process, moment: float) -> None:
        """Let a process go on at a moment, unless it goes on before."""
        self.at(moment, partial(self._go_on, process, process.turn))

    def _go_on(self, process: Process, turn: int) -> None:
        if process.turn != turn or process.killed:
            return
        if process.frozen_until > self.now:
            self._wake(process, process.frozen_until)
        else:
            process.turn += 1
            process.switch()


def _throw(process: Process) -> None:
    """Raise ``Killed`` in a process that has begun and not ended."""
    if process:
        process.throw(Killed())
