"""What idle triggers of a provider take: CPU of the triggerer's process that runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.process import Seen, Watch
from benchmarks.stage import ROOT, private_folder
from benchmarks.watchers import Watchers, dags_folder, triggerer_of
from tools.local_airflow import LocalAirflow

WATCHED = 10
"""Queues that are watched at once, each by a trigger of its own."""
SETTLE_SECONDS = 30.0
"""From the DAG's first sight until the first window, in which every trigger begins to wait."""
WINDOW_SECONDS = 10.0


def uncounted() -> int:
    """The number of polls of triggers whose polls are not counted."""
    return 0


@dataclass(frozen=True)
class Watcher:
    """
    How a DAG file makes a trigger.

    :param imported: the line that imports its class.
    :param trigger: an expression, from ``name``: the name of the queue, one of :func:`queue_names`.
    :param polls: tells how often triggers of this kind have polled so far.
    """

    imported: str
    trigger: str
    polls: Callable[[], int] = uncounted


NOTHING = Watcher("", "")
"""No watchers at all: what a triggerer takes anyway."""


def queue_names() -> list[str]:
    """The queues that are watched."""
    return [f"inbox_{number}" for number in range(WATCHED)]


def measure(watcher: Watcher, connections: Mapping[str, str], env: Mapping[str, str], windows: int) -> Seen:
    """What the process takes that runs :data:`WATCHED` triggers, window by window."""
    watchers = Watchers(0 if watcher == NOTHING else WATCHED, watcher.imported, watcher.trigger)
    with (
        private_folder() as home,
        LocalAirflow(
            home,
            dags_folder(home, watchers),
            connections,
            quick=False,
            env={**env, "PYTHONPATH": str(ROOT)},
        ) as airflow,
    ):
        airflow.wait_for_dags(["consumer"] if watchers.count else [])
        time.sleep(SETTLE_SECONDS)
        watch = Watch(triggerer_of(airflow), watcher.polls)
        for _ in range(windows):
            time.sleep(WINDOW_SECONDS)
            watch.window()
        return watch.seen()
