"""
What watchers of up to 10,000 inboxes take while nothing arrives, in a real Airflow with as many triggerers as
they need, on PostgreSQL.
"""

from __future__ import annotations

import json
import math
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from benchmarks.meter import MACHINE, Meter, cpu_of, cpu_of_postgres, megabytes, sockets
from benchmarks.results import Row, alone
from benchmarks.servers import Database, metadata_database
from benchmarks.service import Service, service
from benchmarks.stage import running_airflow, wait, write
from benchmarks.watchers import (
    ASSETS,
    DECORATED,
    IDLE_SECONDS,
    LISTENING,
    PER_FILE,
    POLLS,
    dag_files,
    inbox_names,
    runner_of,
    spread,
)
from tools.local_airflow import COMPONENTS, LocalAirflow

CAPACITY = 1000
"""Triggers of each triggerer: Airflow's default."""
TRIGGERER = ["triggerer", "--skip-serve-logs", "--capacity", str(CAPACITY)]
STORED_SECONDS = 900.0
POLLED_SECONDS = 300.0
"""How long these are waited for at most; then what is there is measured."""
NOTICED_SECONDS = 60.0
APART_SECONDS = 0.5
"""Between two messages."""
RUNNERS, SUPERVISORS = "processes that run triggers", "supervisors of triggers"
POSTGRES, EMULATOR, SCHEDULER = "PostgreSQL", "emulator", "scheduler"

BLOCKED = "async thread was blocked"
"""In the log of a triggerer, at INFO, where its event loop was late by 0.2 s or more."""
WATCHERS = "SELECT count(*) FROM asset_watcher"
UNASSIGNED = "SELECT count(*) FROM trigger WHERE triggerer_id IS NULL"
LATE_TRIGGERERS = """
    SELECT count(*) FROM job WHERE job_type = 'TriggererJob' AND end_date IS NULL
    AND latest_heartbeat < now() - interval '30 seconds'
"""
PARSED = "SELECT max(last_parse_duration) FROM dag GROUP BY fileloc"
EVENT = """
    SELECT extract(epoch FROM min(event.timestamp))::float8
    FROM asset_event event JOIN asset ON asset.id = event.asset_id
    WHERE asset.name = %s AND extract(epoch FROM event.timestamp) >= %s
"""


def run(*, quick: bool, sizes: Sequence[int] = ()) -> list[Row]:
    """Measure; ``sizes`` are numbers of inboxes."""
    # Each stream is an open file, in two processes.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    decorated, settle_seconds, window_seconds, samples = (
        ((4,), 2.0, 5.0, 2) if quick else ((100, 1000), 10.0, IDLE_SECONDS, 15)
    )
    rows: list[Row] = []
    for count in decorated:
        print(f"  DAG files of {count} inboxes ...", flush=True)
        with _fleet(count) as fleet:
            rows += fleet.store(DECORATED, "@inbox_dag")
    for count in sizes or ((20,) if quick else (1000, 10_000)):
        print(f"  {count} inboxes ...", flush=True)
        with _fleet(count) as fleet:
            rows += fleet.store(ASSETS, "assets of one DAG")
            rows += fleet.wait(settle_seconds, window_seconds, samples)
    return rows


@contextmanager
def _fleet(count: int) -> Iterator[Fleet]:
    """An Airflow with the first triggerer, and no DAG files yet."""
    env = {
        "AIRFLOW__WORKFLOW__MAX_EVENT_STREAMS": str(CAPACITY),
        # Files are read once: reading them again is measured with them, and not with the triggerers.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    }
    components = {name: words for name, words in COMPONENTS.items() if name != "triggerer"}
    with (
        service(inbox_names(count)) as emulator,
        metadata_database() as database,
        running_airflow(
            {},
            {"workflow_default": json.dumps(emulator.connection)},
            env=env,
            sql_alchemy_conn=database.url,
            components={**components, "triggerer-1": TRIGGERER},
            log_level="INFO",
        ) as airflow,
    ):
        yield Fleet(airflow, emulator, database, count)


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

    @property
    def triggerers(self) -> list[str]:
        """The names of the triggerers for so many watchers."""
        return [f"triggerer-{number + 1}" for number in range(max(1, math.ceil(self.count / CAPACITY)))]

    def store(self, template: str, shape: str) -> list[Row]:
        """Write DAG files, and wait until Airflow has read them."""
        files, began_at = dag_files(self.count, LISTENING, template), time.monotonic()
        write(self.airflow.home / "dags", files)
        wait(
            self.airflow,
            lambda: (
                self.database.value(WATCHERS) >= self.count and len(self.database.rows(PARSED)) >= len(files)
            ),
            STORED_SECONDS,
        )
        seconds = time.monotonic() - began_at
        parsed = [duration for (duration,) in self.database.rows(PARSED) if duration is not None]
        title, per_file = f"{self.count} inboxes, {shape}", min(PER_FILE, self.count)
        return [
            alone(f"{title}: time to parse a file of {per_file} inboxes", "s", parsed),
            alone(f"{title}: from DAG files to triggers in the database", "s", [seconds]),
        ]

    def wait(self, settle_seconds: float, window_seconds: float, samples: int) -> list[Row]:
        """
        Start the other triggerers, and measure.

        Each is started when all triggers of those before it run, as an orchestrator rolls out replicas: the
        start of a process takes more CPU than a thousand triggers that wait.

        :param samples: messages after the window.
        """
        began_at = time.monotonic()
        for number, name in enumerate(self.triggerers, 1):
            if number > 1:
                self.airflow.start_process(name, TRIGGERER)
            expected = min(number * CAPACITY, self.count)
            wait(self.airflow, partial(self._has_polled, expected), POLLED_SECONDS)
        polled_seconds = time.monotonic() - began_at
        time.sleep(settle_seconds)
        blocked_before = self._blocked()
        meter = Meter(self._counters())
        time.sleep(window_seconds)
        window, thousands = meter.window(), self.count / 1000
        pids = [pid for name in self.triggerers for pid in self.airflow.pids(name)]
        figures = {
            ("until each inbox was polled", "s"): polled_seconds,
            **{
                (f"CPU of {group}, per 1000 inboxes", "% of a core"): window.share(group) / thousands
                for group in (RUNNERS, SUPERVISORS, POSTGRES, SCHEDULER, EMULATOR)
            },
            (f"CPU of {MACHINE}", "% of its cores"): window.machine,
            ("memory, per 1000 inboxes", "MB"): sum(map(megabytes, pids)) / thousands,
            ("sockets, per 1000 inboxes", "sockets"): sum(map(sockets, self._runners())) / thousands,
            ("inboxes without an event stream", "inboxes"): self.count - self.service.open_streams(),
            ("polls made, of those due", "%"): (
                window.used[POLLS] / (self.count * window.seconds / IDLE_SECONDS) * 100
            ),
            ("triggers that no triggerer runs", "triggers"): self.database.value(UNASSIGNED),
            ("triggerers without a heartbeat for 30 s", "triggerers"): self.database.value(LATE_TRIGGERERS),
            ("warnings of a blocked event loop before", "warnings"): blocked_before,
            ("warnings of a blocked event loop", "warnings"): self._blocked() - blocked_before,
        }
        title = f"{self.count} inboxes, triggerers: {len(self.triggerers)}"
        return [
            *(alone(f"{title}: {name}", unit, [value]) for (name, unit), value in figures.items()),
            alone(f"{title}: put to event", "s", self._noticed(samples)),
        ]

    def _has_polled(self, count: int) -> bool:
        return self.service.count("list_messages") >= count and self.service.open_streams() >= count

    def _runners(self) -> list[int]:
        return [runner_of(self.airflow, name) for name in self.triggerers]

    def _counters(self) -> dict[str, object]:
        runners = self._runners()
        pids = {pid for name in self.triggerers for pid in self.airflow.pids(name)}
        return {
            RUNNERS: cpu_of(lambda: runners),
            SUPERVISORS: cpu_of(lambda: pids - set(runners)),
            SCHEDULER: cpu_of(lambda: self.airflow.pids("scheduler")),
            EMULATOR: cpu_of(lambda: [self.service.pid]),
            POSTGRES: cpu_of_postgres,
            POLLS: lambda: self.service.count("list_messages"),
        }

    def _blocked(self) -> int:
        return sum(
            self.airflow.logs(name).read_text(errors="replace").count(BLOCKED) for name in self.triggerers
        )

    def _noticed(self, samples: int) -> list[float]:
        """Seconds from each message to the event of its inbox; endless where there is none in time."""
        put_at = {}
        for number in sorted(set(spread(samples, self.count))):
            put_at[f"inbox_{number}"] = time.time()
            self.service.put(f"inbox_{number}", {"number": 1})
            time.sleep(APART_SECONDS)

        def seconds() -> list[float]:
            events = {inbox: self.database.value(EVENT, inbox, at) for inbox, at in put_at.items()}
            return [(at or math.inf) - put_at[inbox] for inbox, at in events.items()]

        wait(self.airflow, lambda: math.inf not in seconds(), NOTICED_SECONDS)
        return seconds()
