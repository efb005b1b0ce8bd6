"""What groups of processes use during a window of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import psutil

from benchmarks.process import cpu_seconds

MACHINE = "all processes of the machine"

Seconds = Callable[[], float]
"""The seconds of CPU that a group has used so far."""


@dataclass(frozen=True)
class Load:
    """
    The load in a window.

    :param seconds: length of the window.
    :param used: seconds of CPU of each group.
    """

    seconds: float
    used: Mapping[str, float]

    def share(self, group: str) -> float:
        """Percent of one core."""
        return self.used[group] / self.seconds * 100


class Meter:
    """
    Measures windows, from one call of :meth:`window` to the next.

    :param groups: by their names.
    """

    def __init__(self, groups: Mapping[str, Seconds]) -> None:
        self._groups = {**groups, MACHINE: machine_seconds}
        self._at, self._used = self._now()

    def window(self) -> Load:
        """The window that began when this was made, or with the last call."""
        at, used = self._now()
        load = Load(at - self._at, {name: used[name] - self._used[name] for name in used})
        self._at, self._used = at, used
        return load

    def _now(self) -> tuple[float, dict[str, float]]:
        return time.monotonic(), {name: seconds() for name, seconds in self._groups.items()}


def of(pids: Callable[[], Iterable[int]]) -> Seconds:
    """What processes that stay have used; one that ended meanwhile does not count."""

    def seconds() -> float:
        return sum(_of_one(pid) for pid in pids())

    return seconds


def _of_one(pid: int) -> float:
    try:
        return cpu_seconds(pid)
    except OSError:
        return 0.0


def with_children(pids: Callable[[], Iterable[int]]) -> Seconds:
    """What processes that stay have used, and their children that have ended; to hundredths of a second."""

    def seconds() -> float:
        return sum(_of_family(pid) for pid in pids())

    return seconds


def _of_family(pid: int) -> float:
    try:
        return float(sum(psutil.Process(pid).cpu_times()[:4]))
    except psutil.Error:
        return 0.0


def machine_seconds() -> float:
    """What all processes have used, over all cores."""
    times = psutil.cpu_times()
    idle: float = times.idle + getattr(times, "iowait", 0.0)
    # Guests are part of user and nice already.
    guests: float = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times)) - idle - guests


def postgres_seconds() -> float:
    """
    What the PostgreSQL servers of this machine have used, their ended processes included; 0 where there are
    none.
    """
    total = 0.0
    for process in psutil.process_iter(["name"]):
        if not (process.info["name"] or "").startswith("postgres"):
            continue
        total += _of_family(process.pid)
    return total
