"""A real Airflow with as many triggerers as its watchers need, and what these take while nothing arrives."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.process import MEGABYTE, proportional, sockets
from benchmarks.scale import files
from benchmarks.scale.deployment import Database
from benchmarks.scale.load import Load, Meter, of, postgres_seconds
from benchmarks.service import Service
from benchmarks.stage import ROOT
from tools.local_airflow import COMPONENTS, LocalAirflow

CAPACITY = 1000
"""Triggers of each triggerer: Airflow's default."""
STORED_SECONDS = 900.0
POLLED_SECONDS = 300.0
"""How long each is waited for at most; then what is there is measured."""
NOTICED_SECONDS = 60.0
APART_SECONDS = 0.5
"""Between two messages."""
RUNNERS, SUPERVISORS = "processes that run triggers", "supervisors of triggers"
POSTGRES, EMULATOR, SCHEDULER = "PostgreSQL", "emulator", "scheduler"

BLOCKED = "async thread was blocked"
"""In the log of a triggerer, at INFO, where its event loop was late by 0.2 s or more."""
WATCHERS = "SELECT count(*) FROM asset_watcher"
ROWS = "SELECT count(*) FROM trigger"
UNASSIGNED = "SELECT count(*) FROM trigger WHERE triggerer_id IS NULL"
LATE_TRIGGERERS = """
    SELECT count(*) FROM job WHERE job_type = 'TriggererJob' AND end_date IS NULL
    AND latest_heartbeat < now() - interval '30 seconds'
"""
PARSED = "SELECT fileloc, max(last_parse_duration) FROM dag GROUP BY fileloc"
EVENT = """
    SELECT extract(epoch FROM min(event.timestamp))::float8
    FROM asset_event event JOIN asset ON asset.id = event.asset_id
    WHERE asset.name = %s AND extract(epoch FROM event.timestamp) >= %s
"""


@dataclass(frozen=True)
class Stored:
    """
    DAG files that Airflow has read.

    :param parsed: seconds for each file, in a process of its own, from Airflow's database.
    :param seconds: from the files in the folder to all triggers in the database.
    :param rows: triggers in the database.
    """

    parsed: list[float]
    seconds: float
    rows: int


@dataclass(frozen=True)
class Waiting:
    """
    Triggerers that wait for messages.

    :param triggerers: how many.
    :param polled_seconds: from DAG files that were read until each inbox was polled.
    :param load: of a window.
    :param megabytes: memory of all of their processes.
    :param sockets: of the processes that run triggers.
    :param streams: that are open.
    :param polls: in the window.
    :param unassigned: triggers that no triggerer runs.
    :param late: triggerers without a heartbeat for 30 s.
    :param blocked_before: how often an event loop was late before the window.
    :param blocked: how often in the window.
    :param noticed: seconds from a message to the event of its inbox in the database, those in time.
    :param samples: messages.
    """

    triggerers: int
    polled_seconds: float
    load: Load
    megabytes: float
    sockets: int
    streams: int
    polls: int
    unassigned: int
    late: int
    blocked_before: int
    blocked: int
    noticed: list[float] = field(default_factory=list)
    samples: int = 0


@dataclass(frozen=True)
class Fleet:
    """
    Triggerers of one Airflow.

    :param count: watched inboxes.
    """

    airflow: LocalAirflow
    service: Service
    database: Database
    count: int

    def store(self, template: str) -> Stored:
        """Write DAG files, and wait until Airflow has read them."""
        began_at = time.monotonic()
        expected = files.write_files(folder_of(self.airflow), template, self.count)
        seconds = self.seconds_until(
            lambda: (
                self.database.value(WATCHERS) >= self.count and len(self.database.rows(PARSED)) >= expected
            ),
            STORED_SECONDS,
            began_at,
        )
        parsed = [seconds for _, seconds in self.database.rows(PARSED) if seconds is not None]
        return Stored(parsed, seconds, self.database.value(ROWS))

    def wait(self, settle_seconds: float, window_seconds: float, chosen: Sequence[str]) -> Waiting:
        """
        Start the other triggerers, and measure.

        Each is started when all triggers of those before it run, as an orchestrator rolls out replicas: the
        start of a process takes more CPU than a thousand triggers that wait.

        :param chosen: inboxes that get a message after the window.
        """
        began_at = time.monotonic()
        names = triggerers(self.count)
        polled_seconds = 0.0
        for number, name in enumerate(names, 1):
            if number > 1:
                self.airflow.start_process(name, triggerer_arguments())
            polled_seconds = self._seconds_until_polled(min(number * CAPACITY, self.count), began_at)
        time.sleep(settle_seconds)
        blocked_before = self._blocked(names)
        load, polls = self._window(names, window_seconds)
        pids = [pid for name in names for pid in self.airflow.pids(name)]
        return Waiting(
            len(names),
            polled_seconds,
            load,
            sum(proportional(pid) for pid in pids) / MEGABYTE,
            sum(sockets(max(self.airflow.pids(name))) for name in names),
            self.service.open_streams(),
            polls,
            self.database.value(UNASSIGNED),
            self.database.value(LATE_TRIGGERERS),
            blocked_before,
            self._blocked(names) - blocked_before,
            self._noticed(chosen),
            len(chosen),
        )

    def _seconds_until_polled(self, count: int, began_at: float) -> float:
        return self.seconds_until(
            lambda: self.service.count("list_messages") >= count and self.service.open_streams() >= count,
            POLLED_SECONDS,
            began_at,
        )

    def _window(self, names: Sequence[str], seconds: float) -> tuple[Load, int]:
        every = {name: sorted(self.airflow.pids(name)) for name in names}
        meter = Meter(
            {
                # The process that runs the triggers is forked from its supervisor.
                RUNNERS: of(lambda: [pids[-1] for pids in every.values()]),
                SUPERVISORS: of(lambda: [pid for pids in every.values() for pid in pids[:-1]]),
                SCHEDULER: of(lambda: self.airflow.pids("scheduler")),
                EMULATOR: of(lambda: [self.service.pid]),
                POSTGRES: postgres_seconds,
            }
        )
        polls = self.service.count("list_messages")
        time.sleep(seconds)
        return meter.window(), self.service.count("list_messages") - polls

    def _blocked(self, names: Sequence[str]) -> int:
        return sum(self.airflow.logs(name).read_text(errors="replace").count(BLOCKED) for name in names)

    def _noticed(self, chosen: Sequence[str]) -> list[float]:
        put_at = {}
        for inbox in chosen:
            put_at[inbox] = time.time()
            self.service.put(inbox, {"number": 1})
            time.sleep(APART_SECONDS)

        def stored() -> dict[str, float]:
            events = {inbox: self.database.value(EVENT, inbox, at) for inbox, at in put_at.items()}
            return {inbox: at for inbox, at in events.items() if at is not None}

        with contextlib.suppress(TimeoutError):
            self.airflow.api.wait_until(lambda: len(stored()) == len(put_at), NOTICED_SECONDS, "every event")
        return [at - put_at[inbox] for inbox, at in stored().items()]

    def seconds_until(self, done: Callable[[], bool], timeout: float, began_at: float) -> float:
        """
        Wait for something, at most so long; what is missing then shows in the figures.

        A service or database that does not answer in time, on a machine without idle CPU, is asked again.
        """

        def answered() -> bool:
            try:
                return done()
            except OSError:
                return False

        with contextlib.suppress(TimeoutError):
            self.airflow.api.wait_until(answered, timeout, "it is awaited", interval=0.5)
        return time.monotonic() - began_at


def folder_of(airflow: LocalAirflow) -> Path:
    return airflow.home / "dags"


def triggerers(count: int) -> list[str]:
    """The names of the triggerers for so many watchers."""
    return [f"triggerer-{number + 1}" for number in range(max(1, math.ceil(count / CAPACITY)))]


def triggerer_arguments() -> list[str]:
    return ["triggerer", "--skip-serve-logs", "--capacity", str(CAPACITY)]


@contextlib.contextmanager
def fleet(home: Path, service: Service, database: Database, connection: str, count: int) -> Iterator[Fleet]:
    """
    An Airflow with the first triggerer, and no DAG files yet.

    :param connection: value of the connection to the service.
    """
    (home / "dags").mkdir()
    env = {
        "AIRFLOW__WORKFLOW__MAX_EVENT_STREAMS": str(CAPACITY),
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        # Files are read once: reading them again is measured with them, and not with the triggerers.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        "PYTHONPATH": str(ROOT),
    }
    others = {name: words for name, words in COMPONENTS.items() if name != "triggerer"}
    with LocalAirflow(
        home,
        home / "dags",
        {"workflow_default": connection},
        env=env,
        sql_alchemy_conn=database.url,
        components={**others, "triggerer-1": triggerer_arguments()},
        log_level="INFO",
        quick=False,
    ) as airflow:
        yield Fleet(airflow, service, database, count)
