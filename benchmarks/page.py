"""
What 50 browsers with the page Inboxes open cost Airflow's API server, while tasks run: beside the same server
and the same tasks without a browser. The requests are those of the page's own client, in Node.js.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.process import cpu_seconds
from benchmarks.results import Row, Target, alone, compared
from benchmarks.stage import stage
from tools.local_airflow import LocalAirflow

BROWSERS = 50
INBOXES = 20
MESSAGES = 100
"""Waiting in each inbox but the first."""
WARM_UP_SECONDS = 60.0
"""Time to open all browsers, and for their requests to become steady."""
PUT_SECONDS = 2.0
"""From one message to the next, whose run has a task."""
LITTLE = Target("ours", "<", 5)


@dataclass(frozen=True)
class Size:
    """
    How much is measured.

    :param rounds: in which the browsers are open, and not, in turn.
    :param seconds: of a window.
    """

    rounds: int
    seconds: float
    browsers: int


@dataclass(frozen=True)
class Answers:
    """How many requests of the browsers were answered, and how many failed."""

    answered: int
    failed: int


def run(quick: bool) -> list[Row]:
    """
    Measure; ``quick`` with few browsers, and a shorter time.

    :raises RuntimeError: Node.js is not installed.
    """
    if shutil.which("node") is None:
        raise RuntimeError("The browsers are played by Node.js: install node, version 20 or later")
    size = Size(1, 10.0, 4) if quick else Size(3, 60.0, BROWSERS)
    inboxes = [f"inbox_{number}" for number in range(INBOXES)]
    with stage("page", ["listen", "handle"], inboxes, has_login=True) as (service, airflow):
        for inbox in inboxes[1:]:
            service.put(inbox, *range(MESSAGES))
        window = Window(service, airflow, size.seconds)
        window.share()  # imports what the first requests need
        without: list[float] = []
        with_page: list[float] = []
        answers: list[Answers] = []
        for _ in range(size.rounds):
            without.append(window.share())
            with browsers(airflow, size.browsers) as count:
                time.sleep(WARM_UP_SECONDS)
                before = count()
                with_page.append(window.share())
                after = count()
            answers.append(Answers(after.answered - before.answered, after.failed - before.failed))
    return rows(size, with_page, without, answers)


class Window:
    """Measures the CPU of the API server, while a message is put every few seconds."""

    def __init__(self, service: EmulatorServer, airflow: LocalAirflow, seconds: float) -> None:
        self._service, self._airflow, self._seconds = service, airflow, seconds

    def share(self) -> float:
        """Percent of one core."""
        began_at, used = time.monotonic(), self._used()
        while (passed := time.monotonic() - began_at) < self._seconds:
            self._service.put("inbox_0", {"at": passed})
            time.sleep(PUT_SECONDS)
        return (self._used() - used) / (time.monotonic() - began_at) * 100

    def _used(self) -> float:
        return sum(cpu_seconds(pid) for pid in self._airflow.pids("api-server"))


@contextmanager
def browsers(airflow: LocalAirflow, number: int) -> Iterator[Callable[[], Answers]]:
    """Keep so many browsers open during the context; gives a function that counts their requests so far."""
    script = Path(__file__).with_name("browsers.mjs")
    arguments = ["node", str(script), f"{airflow.url}/", airflow.api.token(), "workflow_default", str(number)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asking, answering = process.stdin, process.stdout

        def count() -> Answers:
            asking.write("\n")
            asking.flush()
            line = answering.readline()
            if not line:
                raise RuntimeError(f"{script.name} has ended; it wrote its error to standard error")
            return Answers(**json.loads(line))

        try:
            yield count
        finally:
            process.kill()


def rows(size: Size, with_page: list[float], without: list[float], answers: list[Answers]) -> list[Row]:
    """What is shown."""
    what = f"page Inboxes, {size.browsers} browsers"
    more = [ours - theirs for ours, theirs in zip(with_page, without, strict=True)]
    return [
        compared(f"{what}: API server, share of one core", "%", with_page, "no browser", without),
        alone(f"{what}: what they add to it", "%", more, LITTLE),
        alone(f"{what}: requests", "per second", [each.answered / size.seconds for each in answers]),
        alone(f"{what}: requests that failed", "requests", [float(each.failed) for each in answers]),
    ]
