"""What groups of processes use during a window of time, as the kernel counts it."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import psutil

MEGABYTE = 2**20
MACHINE = "all processes of the machine"

Counter = Callable[[], float]
"""Seconds of CPU, or a number of polls, so far."""


@dataclass(frozen=True)
class Window:
    """
    A window of time.

    :param seconds: its length.
    :param used: what each counter rose by.
    """

    seconds: float
    used: Mapping[str, float]

    def share(self, name: str) -> float:
        """Percent of one core that a group of processes used."""
        return self.used[name] / self.seconds * 100

    @property
    def machine(self) -> float:
        """Percent of all cores that were busy."""
        return self.share(MACHINE) / (psutil.cpu_count() or 1)


class Meter:
    """
    Measures a window, from its construction to :meth:`window`.

    :param counters: by their names.
    """

    def __init__(self, counters: Mapping[str, Counter]) -> None:
        self._counters = {**counters, MACHINE: _machine_seconds}
        self._began_at, self._before = time.monotonic(), self._now()

    def window(self) -> Window:
        """The window that ends now."""
        now = self._now()
        used = {name: now[name] - self._before[name] for name in now}
        return Window(time.monotonic() - self._began_at, used)

    def _now(self) -> dict[str, float]:
        return {name: counter() for name, counter in self._counters.items()}


def cpu_of(pids: Callable[[], Iterable[int]]) -> Counter:
    """What processes that stay have used, and their children that have ended."""

    def seconds() -> float:
        return sum(map(_cpu_seconds, pids()))

    return seconds


def _cpu_seconds(pid: int) -> float:
    try:
        return float(sum(psutil.Process(pid).cpu_times()[:4]))
    except psutil.Error:  # it has ended
        return 0.0


def cpu_of_postgres() -> float:
    """What the PostgreSQL servers of this machine have used; 0 where there are none."""
    processes = psutil.process_iter(["name"])
    return sum(
        _cpu_seconds(process.pid)
        for process in processes
        if (process.info["name"] or "").startswith("postgres")
    )


def _machine_seconds() -> float:
    times = psutil.cpu_times()
    # Guests are part of user and nice already.
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def megabytes(pid: int) -> float:
    """Memory of a process. What it shares with others counts in part, so such numbers may be added up."""
    return float(psutil.Process(pid).memory_full_info().pss / MEGABYTE)


def sockets(pid: int) -> int:
    """Sockets that a process has open."""
    return len(psutil.Process(pid).net_connections("all"))


def resident(pid: int | None = None) -> float:
    """
    Megabytes of memory of a process, with all that it shares with others.

    :param pid: None for this process.
    """
    return float(psutil.Process(pid).memory_info().rss / MEGABYTE)


def peak() -> float:
    """Most megabytes of memory that this process has had, with all that it shares with others."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGABYTE
