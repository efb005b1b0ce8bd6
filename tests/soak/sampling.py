"""What processes hold at a moment, seen from outside: memory, open files, sockets, threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import psutil

from tools.local_airflow import LocalAirflow

MEGABYTE = 2**20
TO_SERVICE = "sockets to the service"
ELSEWHERE = "sockets to elsewhere"
HALF_CLOSED = "sockets half closed"
OPEN_FILES = "open files"
THREADS = "threads"
RESIDENT = "memory, resident (MB)"
OWN = "memory, its own (MB)"
EVER = "processes there ever were"

Key = tuple[str, str]
"""Of whom, and what."""


def processes(airflow: LocalAirflow) -> dict[str, list[psutil.Process]]:
    """
    The processes that last, by what they are.

    The children of a first process last as long as it does: the one that runs the triggers, those of a pool
    of workers. What they fork in turn runs one task, and ends.
    """
    processes_by_name = {}
    for name in airflow.names:
        below = CHILDREN.get(name.rstrip("0123456789").rstrip("-"))
        if below is None:
            continue
        first = psutil.Process(airflow.leader(name))
        processes_by_name[name] = [first]
        processes_by_name[f"{name}: {below}"] = first.children()
    return processes_by_name


CHILDREN = {"triggerer": "runs the triggers", "scheduler": "its workers", "worker": "its pool"}


class Sampler:
    """
    Takes samples, and keeps them in their order.

    :param ports: where the service listens.
    """

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self.series: dict[Key, dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))

    def take(self, at: float, groups: Mapping[str, Collection[psutil.Process]]) -> None:
        """
        Sample processes.

        :param at: seconds since the first sample.
        """
        for name, members in groups.items():
            for process in members:
                self.note(at, name, self._held(process), process.pid)
            self.note(at, name, {EVER: len(self.series.get((name, OPEN_FILES), ()))})

    def note(self, at: float, name: str, values: Mapping[str, float], member: int = 0) -> None:
        """
        Keep what was counted of something.

        :param member: which process it is of, where there are several of that name.
        """
        for figure, value in values.items():
            self.series[name, figure][member].append((at, value))

    def _held(self, process: psutil.Process) -> dict[str, float]:
        try:
            with process.oneshot():
                memory = process.memory_full_info()
                return {
                    OPEN_FILES: process.num_fds(),
                    **self._sockets(process.net_connections("tcp")),
                    THREADS: process.num_threads(),
                    RESIDENT: memory.rss / MEGABYTE,
                    OWN: memory.uss / MEGABYTE,
                }
        except psutil.NoSuchProcess:
            return {}

    def _sockets(self, sockets: Iterable[psutil._common.pconn]) -> dict[str, float]:
        counts = {TO_SERVICE: 0, ELSEWHERE: 0, HALF_CLOSED: 0}
        for connection in sockets:
            if connection.status == psutil.CONN_LISTEN:
                continue
            counts[TO_SERVICE if connection.raddr and connection.raddr.port in self.ports else ELSEWHERE] += 1
            counts[HALF_CLOSED] += connection.status == psutil.CONN_CLOSE_WAIT
        return counts
