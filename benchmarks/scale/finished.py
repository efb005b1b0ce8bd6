"""
How many messages per minute become finished runs: each recipe, and ``@task.workflow_inbox``, on PostgreSQL
and Celery over Redis, with two schedulers, triggerers and workers; beside runs that the REST API started.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.meter import MACHINE, Meter, Window, cpu_of, cpu_of_postgres
from benchmarks.results import Point, Row, alone, compared
from benchmarks.servers import Database, metadata_database
from benchmarks.stage import stage, wait
from tests.crash.topology import REDIS_VARIABLE, production
from tools.local_airflow import LocalAirflow

BY_REST = "rest"
IDLE_SECONDS = 20.0
"""From the DAGs' first sight until the first message, in which the listeners begin to wait."""
PLOT = "scale-finished"

RUNS = """
    SELECT extract(epoch FROM end_date)::float8, 1 FROM dag_run
    WHERE dag_id = %s AND state = 'success' AND extract(epoch FROM queued_at) >= %s
"""
RESULTS = """
    SELECT extract(epoch FROM run.end_date)::float8, ({count})::int
    FROM dag_run run JOIN xcom ON xcom.dag_id = run.dag_id AND xcom.run_id = run.run_id
    WHERE run.dag_id = %s AND run.state = 'success' AND xcom.key = 'return_value'
    AND extract(epoch FROM run.queued_at) >= %s
"""


@dataclass(frozen=True)
class Way:
    """
    One way from a message to something that is finished.

    :param name: of its inbox.
    :param shown: what it is.
    :param dag_id: of the runs that count.
    :param query: finds when each of them ended, and how many messages it had.
    :param times: messages, as a multiple of those of a way with a run for each.
    """

    name: str
    shown: str
    dag_id: str
    query: str = RUNS
    times: int = 1


PROCESSED = "xcom.value -> 'processed' ->> 'count'"
WAYS = (
    Way(BY_REST, "runs that the REST API started", "rest_target"),
    Way("sensor", "sensor", "sensor_target"),
    Way("notice", "notice and dispatch", "notice_target"),
    Way("event", "asset events with messages", "event", RESULTS.format(count="xcom.value #>> '{}'"), 10),
    Way("batches", "@task.workflow_inbox", "batches", RESULTS.format(count=PROCESSED), 10),
)


@dataclass(frozen=True)
class Finished:
    """
    What was finished of the messages of one way.

    :param put: messages.
    :param moments: when each run ended, in seconds after the messages were put, and its messages.
    :param window: meanwhile.
    """

    way: Way
    put: int
    moments: Sequence[tuple[float, int]]
    window: Window

    @property
    def count(self) -> int:
        """Messages that are finished."""
        return sum(messages for _, messages in self.moments)

    @property
    def per_minute(self) -> float:
        """Messages per minute, from the first put to the last finished; 0 if none is."""
        return self.count / max(seconds for seconds, _ in self.moments) * 60 if self.moments else 0.0


def run(*, quick: bool, messages: int | None = None) -> list[Row]:
    """Measure; ``messages`` are those of a way with a run for each."""
    messages, seconds = messages or (5 if quick else 150), 120.0 if quick else 240.0
    with metadata_database() as database, _deployment(database) as (service, airflow):
        time.sleep(IDLE_SECONDS)
        deployment = Deployment(service, airflow, database)
        floor, *others = (deployment.finished(way, messages * way.times, seconds) for way in WAYS)
        return [row for finished in (floor, *others) for row in rows(finished, floor)]


@contextmanager
def _deployment(database: Database) -> Iterator[tuple[EmulatorServer, LocalAirflow]]:
    """The production topology at Airflow's defaults, and a service."""
    import redis

    redis_url = os.environ[REDIS_VARIABLE]
    redis.Redis.from_url(redis_url).flushdb()
    topology = production(database.address, redis_url)
    with stage(
        "dags/finished.py",
        [way.dag_id for way in WAYS],
        [way.name for way in WAYS],
        env=topology.env,
        parallelism=32,
        executor=topology.executor,
        sql_alchemy_conn=database.url,
        components=topology.components,
    ) as deployed:
        yield deployed


@dataclass(frozen=True)
class Deployment:
    """Measures one way after the other."""

    service: EmulatorServer
    airflow: LocalAirflow
    database: Database

    def finished(self, way: Way, count: int, seconds: float) -> Finished:
        """Put messages at once, and wait until what they start has ended."""
        print(f"  {way.shown} ...", flush=True)
        meter, put_at = Meter(self._counters()), time.time()
        if way.name == BY_REST:
            for number in range(count):
                self.airflow.api.trigger_dag(way.dag_id, {"number": number})
        else:
            self.service.put(way.name, *({"number": number} for number in range(count)))

        def moments() -> list[tuple[float, int]]:
            ends = self.database.rows(way.query, way.dag_id, put_at)
            return [(at - put_at, messages) for at, messages in ends]

        wait(self.airflow, lambda: sum(messages for _, messages in moments()) >= count, seconds)
        return Finished(way, count, moments(), meter.window())

    def _counters(self) -> dict[str, Callable[[], float]]:
        """All processes of Airflow, and PostgreSQL."""
        names = self.airflow.names
        return {
            "Airflow": cpu_of(lambda: [pid for name in names for pid in self.airflow.pids(name)]),
            "PostgreSQL": cpu_of_postgres,
        }


def rows(finished: Finished, floor: Finished) -> list[Row]:
    """The rate of a way, beside that of runs that the REST API started, and what it used."""
    title = f"{finished.way.shown}, {finished.put} messages"
    point = Point(PLOT, "messages", finished.way.shown)
    rows_of_figure = [
        compared(
            f"{title}: finished per minute",
            "1/min",
            [finished.per_minute],
            floor.way.shown,
            [floor.per_minute],
            point,
        ),
        alone(f"{title}: not finished in time", "messages", [max(0, finished.put - finished.count)]),
        alone(f"{title}: CPU of {MACHINE}", "% of its cores", [finished.window.machine]),
    ]
    if finished.count:
        rows_of_figure += [
            alone(f"{title}: CPU of {group} per message", "ms", [seconds / finished.count * 1000])
            for group, seconds in finished.window.used.items()
            if group != MACHINE
        ]
    return rows_of_figure
