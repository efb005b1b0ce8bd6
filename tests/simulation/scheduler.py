"""
Simulated time, and processes that act in it.

A process has strands: its main thread, and the thread of a session. Each strand is a greenlet, and only one
of them runs at a time. A strand that calls anything outside its process pauses for as long as the call takes;
what happens meanwhile, and whether the process survives it, follows from the seed.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
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
class Process:
    """
    A process of Airflow: one try of a task, or a trigger.

    :param name: for the history.
    :param doom: what happens to it, if anything.
    :param on_term: called by SIGTERM; what it raises is raised in the main thread.
    :param on_end: called once: with its result or its exception, or with ``Killed``.
    :param stopped: whether it was killed, frozen or ended.
    :param pending: calls that its thread has not ended yet.
    :param harmed: the first thing that disturbed it, or empty.
    :param delayed_until: end of the last time that it was frozen, or waited for a slow call.
    """

    name: str
    doom: Doom | None = None
    on_term: Callable[[], None] = lambda: None
    on_end: Callable[[Any], None] = lambda outcome: None
    on_frozen: Callable[[float], None] = lambda seconds: None
    harmed: str = ""
    stopped: bool = False
    delayed_until: float = 0.0
    frozen_until: float = 0.0
    steps: int = 0
    dead: bool = False
    ended: bool = False
    signal: BaseException | None = None
    pending: int = 0
    strands: list[Strand] = field(default_factory=list)
    seen: Any = None

    def harm(self, what: str) -> None:
        """Note that something disturbed this process."""
        self.harmed = self.harmed or what

    def end(self, outcome: Any) -> None:
        """The process is over; only the first call counts."""
        if not self.ended:
            self.ended = True
            self.on_end(outcome)


class Strand(greenlet):
    """
    A thread of a process.

    :param run: what it does.
    """

    def __init__(self, process: Process, run: Callable[[], None], hub: greenlet) -> None:
        super().__init__(run, hub)
        self.process = process
        self.turn = 0
        process.strands.append(self)

    @property
    def is_main(self) -> bool:
        return self.process.strands[0] is self


class Scheduler:
    """
    Time, and all that is due.

    :param random: decides which of two things that are due at the same moment happens first.
    """

    def __init__(self, random: Random) -> None:
        self.now = START
        self.random = random
        self.hub = getcurrent()
        self.processes: list[Process] = []
        self._due: list[tuple[float, int, Callable[[], Any] | None, Strand | None, int]] = []
        self._number = itertools.count()

    # What happens

    def at(self, moment: float, act: Callable[[], Any]) -> None:
        """Let something happen at a moment."""
        heapq.heappush(self._due, (moment, next(self._number), act, None, 0))

    def after(self, seconds: float, act: Callable[[], Any]) -> None:
        self.at(self.now + seconds, act)

    def play(self, until: float, over: Callable[[], bool]) -> None:
        """Let everything happen that is due, until it is over, or until a moment."""
        due = self._due
        while due and not over():
            moment, _, act, strand, turn = heapq.heappop(due)
            if moment > until:
                return
            self.now = moment
            if act is not None:
                act()
            elif strand is not None and strand.turn == turn and not (strand.dead or strand.process.dead):
                if strand.process.frozen_until > moment:
                    self.wake(strand, strand.process.frozen_until)
                else:
                    strand.turn += 1
                    strand.switch()

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
            # An exception and the frames of its traceback hold each other.
            outcome = None

        self.processes.append(process)
        self.wake(Strand(process, run, self.hub), self.now)

    @property
    def is_any_frozen(self) -> bool:
        return any(each.frozen_until > self.now and not each.ended for each in self.processes)

    def kill(self, process: Process, what: str = "kill -9") -> None:
        """End a process at once."""
        if process.dead or process.ended:
            return
        process.harm(what)
        process.stopped = process.dead = True
        for strand in process.strands:
            if strand is not getcurrent() and strand:
                self.at(self.now, partial(_throw, strand))
        process.end(Killed())

    def end(self) -> None:
        """End all processes, in no time and without any effect."""
        for process in self.processes:
            process.dead = process.ended = True
            for strand in process.strands:
                _throw(strand)

    def freeze(self, process: Process, seconds: float) -> None:
        """Let a process do nothing for some time."""
        process.harm("frozen")
        process.stopped = True
        process.frozen_until = process.delayed_until = self.now + seconds
        process.on_frozen(seconds)

    def terminate(self, process: Process) -> None:
        """Send SIGTERM, and SIGKILL some seconds later."""
        process.harm("SIGTERM")
        process.stopped = True
        try:
            process.on_term()
        except BaseException as error:
            self.interrupt(process, error)
        self.after(KILL_AFTER_TERM_SECONDS, lambda: self.kill(process, "SIGKILL after SIGTERM"))

    def interrupt(self, process: Process, error: BaseException) -> None:
        """Raise an exception in the main thread of a process, wherever it is."""
        process.harm(type(error).__name__)
        process.stopped = True
        process.signal = error
        self.wake(process.strands[0], self.now)

    # As a strand calls it

    def pause(self, seconds: float) -> None:
        """Let time pass in the running strand, and whatever happens meanwhile happen."""
        strand: Any = getcurrent()
        process: Process = strand.process
        if process.dead:
            raise Killed
        process.steps += 1
        doom = process.doom
        if doom is not None and process.steps >= doom.step:
            process.doom = None
            self.at(self.now + seconds * self.random.random(), lambda: self.strike(process, doom))
        end = self.now + seconds
        self.wake(strand, end)
        self.block(strand)

    def give_way(self) -> None:
        """
        Let another strand go on first, in no time.

        The process is not interrupted meanwhile: between two statements it would be by rare chance only.
        """
        strand: Any = getcurrent()
        self.wake(strand, self.now)
        self.hub.switch()
        if strand.process.dead:
            raise Killed

    def strike(self, process: Process, doom: Doom) -> None:
        """Let the doom of a process happen, unless it has ended by itself."""
        if process.dead or process.ended:
            return
        if doom.kind == "kill":
            self.kill(process)
        elif doom.kind == "freeze":
            self.freeze(process, doom.seconds)
        elif doom.kind == "term":
            self.terminate(process)
        else:
            self.interrupt(process, TaskTimeout())

    def block(self, strand: Any) -> None:
        """Wait until the running strand is woken up."""
        self.hub.switch()
        process = strand.process
        if process.dead:
            raise Killed
        if process.signal is not None and strand.is_main:
            error, process.signal = process.signal, None
            raise error

    def wake(self, strand: Strand, moment: float) -> None:
        """Let a strand go on at a moment, unless it goes on before."""
        heapq.heappush(self._due, (moment, next(self._number), None, strand, strand.turn))


def _throw(strand: Strand) -> None:
    """Raise ``Killed`` in a strand that has begun and not ended."""
    if strand:
        strand.throw(Killed())
