"""How much memory the processes of a crash test hold over time."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress

import psutil
from tabulate import tabulate  # type: ignore[import-untyped]

from benchmarks.meter import resident
from tools.local_airflow import LocalAirflow

SECONDS = 30.0
"""Between two samples."""


class Memory:
    """
    Samples the resident memory of each component with all its processes.

    :param airflow: whose components. One that is killed holds little again at first.
    """

    def __init__(self, airflow: LocalAirflow) -> None:
        self._airflow = airflow
        self._due_at = time.monotonic()
        self.samples: dict[str, list[float]] = defaultdict(list)

    def sample(self) -> None:
        """Take a sample if one is due."""
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + SECONDS
        for name in self._airflow.names:
            with suppress(psutil.NoSuchProcess):  # it is being killed
                if self._airflow.alive(name):
                    self.samples[name].append(sum(map(resident, self._airflow.pids(name))))

    def figures(self) -> dict[str, list[float]]:
        """MB by component: the medians of the first, second and last third of the samples, and the most."""
        figures = {}
        for name, samples in sorted(self.samples.items()):
            third = max(1, len(samples) // 3)
            parts = samples[:third], samples[third : 2 * third] or samples, samples[-third:]
            figures[name] = [*(sorted(part)[len(part) // 2] for part in parts), max(samples)]
        return figures

    def table(self) -> str:
        """The figures as lines of text."""
        titles = ["memory (MB)", "first", "middle", "last", "most"]
        rows = [[name, *figures] for name, figures in self.figures().items()]
        return str(tabulate(rows, titles, "plain", floatfmt=".0f"))

    def summary(self) -> str:
        """The first and the last third on one line."""
        figures = self.figures().items()
        return ", ".join(f"{name} {first:.0f} to {last:.0f}" for name, (first, _, last, _) in figures)
