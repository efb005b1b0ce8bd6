"""What a process takes, as the kernel tells it."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 2**20


@dataclass(frozen=True)
class Window:
    """
    A piece of time.

    :param seconds: that it took.
    :param used: seconds of CPU.
    :param polls: that were made meanwhile.
    """

    seconds: float
    used: float
    polls: int


@dataclass(frozen=True)
class Seen:
    """
    What was seen of a process that waits.

    :param windows: one after the other.
    :param megabytes: of memory, in the end.
    :param sockets: that are open, in the end.
    """

    windows: list[Window]
    megabytes: float
    sockets: int

    @property
    def shares(self) -> list[float]:
        """Percent of one core, in each window."""
        return [each.used / each.seconds * 100 for each in self.windows]

    @property
    def polls_per_second(self) -> float:
        """Over all windows."""
        return sum(each.polls for each in self.windows) / sum(each.seconds for each in self.windows)

    def per_1000_polls(self, idle_share: float = 0.0) -> list[float | None]:
        """
        Seconds of CPU in each window; None where nobody polled.

        :param idle_share: percent of one core that the process takes anyway, which is not counted.
        """
        return [
            (each.used - idle_share / 100 * each.seconds) / each.polls * 1000 if each.polls else None
            for each in self.windows
        ]


class Watch:
    """
    Looks at a process from one window to the next.

    :param pid: of it.
    :param polls: tells how many it has made so far.
    """

    def __init__(self, pid: int, polls: Callable[[], int]) -> None:
        self._pid = pid
        self._polls = polls
        self._windows: list[Window] = []
        self._last = self._now()

    def window(self) -> None:
        """A window ends, and the next one begins."""
        at, used, polls = now = self._now()
        self._windows.append(Window(at - self._last[0], used - self._last[1], polls - self._last[2]))
        self._last = now

    def seen(self) -> Seen:
        return Seen(self._windows, resident(self._pid) / MEGABYTE, sockets(self._pid))

    def _now(self) -> tuple[float, float, int]:
        return time.monotonic(), cpu_seconds(self._pid), self._polls()


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, in user and system mode."""
    # As clock_getcpuclockid(3) makes it; /proc has hundredths of a second only.
    return time.clock_gettime(~pid << 3 | 2)


def resident(pid: int) -> int:
    """Memory of a process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def proportional(pid: int) -> int:
    """
    Memory of a process, in bytes, of which what it shares with others counts in part: such numbers may be
    added up for processes that were forked from each other.
    """
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def sockets(pid: int) -> int:
    """Sockets that a process has open."""
    found = 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += os.readlink(each).startswith("socket:")
        except FileNotFoundError:  # closed meanwhile
            continue
    return found
