"""
How many messages per minute become finished runs: each recipe, and ``@task.workflow_inbox``, on PostgreSQL
and Celery over Redis, with two schedulers, triggerers and workers; beside runs that the REST API started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.results import Point, Row, alone, compared
from benchmarks.scale.deployment import Database, metadata_database
from benchmarks.scale.load import MACHINE, Load, Meter, postgres_seconds, with_children
from benchmarks.scale.wanted import Wanted
from benchmarks.stage import ROOT, private_folder
from tests.crash.topology import REDIS_VARIABLE, production
from tools.local_airflow import LocalAirflow

DAG_FILE = Path(__file__).parent / "dags" / "finished.py"
ALONE = "alone"
READY_SECONDS = 300.0
IDLE_SECONDS = 20.0
"""From the DAGs' first sight until the first message, in which the listeners begin to wait."""
STARTED = "scale-finished"
POSTGRES = "PostgreSQL"

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


WAYS = (
    Way(ALONE, "runs that the REST API started", "alone_target"),
    Way("sensor", "sensor", "sensor_target"),
    Way("notice", "notice and dispatch", "notice_target"),
    Way("event", "asset events with messages", "event", RESULTS.format(count="xcom.value #>> '{}'"), 10),
    Way(
        "batches",
        "@task.workflow_inbox",
        "batches",
        RESULTS.format(count="xcom.value -> 'processed' ->> 'count'"),
        10,
    ),
)


@dataclass(frozen=True)
class Size:
    """
    How much is measured.

    :param messages: put at once, to a way with a run for each.
    :param seconds: after which no more is waited for.
    """

    messages: int = 150
    seconds: float = 240.0


QUICK = Size(messages=5, seconds=120.0)


@dataclass(frozen=True)
class Finished:
    """
    What was finished of the messages of one way.

    :param put: messages.
    :param moments: when each run ended, in seconds after the messages were put, and its messages.
    :param load: meanwhile.
    """

    way: Way
    put: int
    moments: Sequence[tuple[float, int]]
    load: Load

    @property
    def count(self) -> int:
        """Messages that are finished."""
        return sum(messages for _, messages in self.moments)

    @property
    def per_minute(self) -> float:
        """Messages per minute, from the first put to the last finished; 0 if none is."""
        return self.count / max(seconds for seconds, _ in self.moments) * 60 if self.moments else 0.0


def size_of(wanted: Wanted) -> Size:
    size = QUICK if wanted.quick else Size()
    return Size(wanted.messages, size.seconds) if wanted.messages else size


def run(wanted: Wanted) -> list[Row]:
    """Measure; ``messages`` are those of a way with a run for each."""
    size = size_of(wanted)
    with metadata_database() as database, deployment(database) as (service, airflow):
        time.sleep(IDLE_SECONDS)
        measured = Deployment(service, airflow, database)
        found = []
        for way in WAYS:
            print(f"  {way.shown} ...", flush=True)
            found.append(measured.finished(way, size))
    return rows(found)


@contextmanager
def deployment(database: Database) -> Iterator[tuple[EmulatorServer, LocalAirflow]]:
    """The production topology at Airflow's defaults, and a service."""
    import redis

    redis_url = os.environ[REDIS_VARIABLE]
    redis.Redis.from_url(redis_url).flushdb()
    place = production(database.address, redis_url)
    with private_folder() as home, EmulatorServer() as service:
        dags = home / "dags"
        dags.mkdir()
        shutil.copy(DAG_FILE, dags)
        for way in WAYS:
            service.open_inbox(way.name)
        env = {**place.env, "PYTHONPATH": str(ROOT), "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5"}
        airflow = LocalAirflow(
            home,
            dags,
            {"workflow_default": service.connection_json()},
            env=env,
            parallelism=32,
            executor=place.executor,
            sql_alchemy_conn=database.url,
            components=place.components,
            quick=False,
        )
        airflow.start(READY_SECONDS)
        try:
            airflow.wait_for_dags([way.dag_id for way in WAYS])
            yield service, airflow
        finally:
            airflow.stop()


@dataclass(frozen=True)
class Deployment:
    """Measures one way after the other."""

    service: EmulatorServer
    airflow: LocalAirflow
    database: Database

    def finished(self, way: Way, size: Size) -> Finished:
        """Put messages at once, and wait until what they start has ended."""
        count, put_at = size.messages * way.times, time.time()
        meter = Meter(self._groups())
        if way.name == ALONE:
            for number in range(count):
                self.airflow.api.trigger_dag(way.dag_id, {"number": number})
        else:
            self.service.put(way.name, *({"number": number} for number in range(count)))
        self._wait(lambda: sum(each for _, each in self._ended(way, put_at)) >= count, size.seconds)
        moments = [(at - put_at, messages) for at, messages in self._ended(way, put_at)]
        return Finished(way, count, moments, meter.window())

    def _ended(self, way: Way, put_at: float) -> list[tuple[float, int]]:
        return [(at, messages) for at, messages in self.database.rows(way.query, way.dag_id, put_at)]

    def _groups(self) -> dict[str, Callable[[], float]]:
        """The processes of each kind."""
        kinds = {name.partition("-")[0]: [] for name in self.airflow.names if name[-1].isdigit()}
        groups = {f"{kind}s": self._of(kind) for kind in kinds}
        return {**groups, "API server": self._of("api-server"), POSTGRES: postgres_seconds}

    def _of(self, kind: str) -> Callable[[], float]:
        names = [name for name in self.airflow.names if name.startswith(kind)]
        return with_children(lambda: [pid for name in names for pid in self.airflow.pids(name)])

    def _wait(self, done: Callable[[], bool], seconds: float) -> None:
        """Wait so long at most; what is not finished by then shows in the figures."""
        with contextlib.suppress(TimeoutError):
            self.airflow.api.wait_until(done, seconds, "it is awaited", interval=0.5)


def rows(found: Sequence[Finished]) -> list[Row]:
    """Each way beside Airflow alone, and what it used."""
    (floor,) = (each for each in found if each.way.name == ALONE)
    cores = psutil.cpu_count() or 1
    shown = []
    for each in found:
        what = f"{each.way.shown}, {each.put} messages"
        rates, point = [each.per_minute], Point(STARTED, "messages", each.way.shown)
        if each is floor or not floor.per_minute:
            shown.append(alone(f"{what}: finished per minute", "1/min", rates, point=point))
        else:
            beside = f"{floor.way.shown}, {floor.put}"
            finished = f"{what}: finished per minute"
            shown.append(compared(finished, "1/min", rates, beside, [floor.per_minute], point=point))
        shown += [
            alone(f"{what}: not finished in time", "messages", [max(0, each.put - each.count)]),
            alone(f"{what}: CPU of {MACHINE}", "% of its cores", [each.load.share(MACHINE) / cores]),
            *(
                alone(f"{what}: CPU of {group} per message", "ms", [seconds / each.count * 1000])
                for group, seconds in each.load.used.items()
                if group != MACHINE and each.count
            ),
        ]
    return shown
