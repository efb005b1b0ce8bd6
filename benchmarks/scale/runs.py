"""
How many DAG runs are started per second on PostgreSQL: by 1, 2 and 4 workers of the API server, by one
dispatching task and by several, and with a service that takes 200 ms for each answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import psutil
import requests

from benchmarks.results import Point, Row, compared
from benchmarks.results import alone as single
from benchmarks.scale.deployment import Database, metadata_database
from benchmarks.scale.load import MACHINE, Load, Meter, of, postgres_seconds
from benchmarks.scale.wanted import Wanted
from benchmarks.stage import stage
from benchmarks.throughput import SLOW_ANSWER_SECONDS, Throughput
from tools.local_airflow import LocalAirflow

SERVER, POSTGRES = "API server", "PostgreSQL"
READY_SECONDS = 240.0
RATE = "scale-runs"
DAG_IDS = ("dispatch", "batches", "bare", "mapped")
"""All of the file, as none of them may be read later."""


@dataclass(frozen=True)
class Size:
    """
    How much is measured.

    :param workers: of the API server.
    :param dispatchers: tasks that work on the inbox side by side.
    :param slow: the same, of those beside a slow service.
    :param rounds: of each.
    :param messages: that wait in the inbox.
    """

    workers: Sequence[int] = (1, 2, 4)
    dispatchers: Sequence[int] = (1, 4)
    slow: Sequence[int] = (1, 4)
    rounds: int = 2
    messages: int = 1000


QUICK = Size(workers=(1, 2), dispatchers=(1, 2), slow=(1,), rounds=1, messages=20)


@dataclass(frozen=True)
class Started:
    """
    DAG runs that were started.

    :param rate: per second.
    :param count: how many.
    :param load: meanwhile, and while the tasks were scheduled.
    """

    rate: float
    count: int
    load: Load


@dataclass(frozen=True)
class Case:
    """What is the same for all rounds."""

    workers: int
    dispatchers: int
    slow: bool = False

    def __str__(self) -> str:
        tasks = "one task" if self.dispatchers == 1 else f"{self.dispatchers} tasks side by side"
        latency = f", each answer of the service takes {SLOW_ANSWER_SECONDS * 1000:g} ms" if self.slow else ""
        return f"{tasks}, API server workers: {self.workers}{latency}"

    @property
    def curve(self) -> str:
        """Its curve over the number of workers."""
        tasks = "one task" if self.dispatchers == 1 else f"{self.dispatchers} tasks"
        return f"{tasks}, {SLOW_ANSWER_SECONDS * 1000:g} ms latency" if self.slow else tasks


Found = dict[Case, list[Started]]


def size_of(wanted: Wanted) -> Size:
    size = QUICK if wanted.quick else Size()
    return Size(**{**vars(size), "messages": wanted.messages}) if wanted.messages else size


def run(wanted: Wanted) -> list[Row]:
    """Measure; ``messages`` wait in the inbox each time."""
    size = size_of(wanted)
    found: Found = {}
    with (
        metadata_database() as database,
        stage("throughput", DAG_IDS, ["throughput"], sql_alchemy_conn=database.url) as (service, airflow),
    ):
        measured = Throughput(service, airflow)
        for number, workers in enumerate(size.workers):
            print(f"  API server workers: {workers} ...", flush=True)
            if number or workers != 1:
                serve_with(airflow, workers)
            measured.dispatched(max(size.dispatchers) * 10, dispatchers=max(size.dispatchers))
            found |= _with_workers(measured, database, workers, size)
    return rows(found, size)


def serve_with(airflow: LocalAirflow, workers: int) -> None:
    """
    Start the API server again, with so many workers.

    Each worker sets up its API for tasks at the first request for it, and answers nothing meanwhile. So
    many requests at once reach all of them.
    """
    airflow.env["AIRFLOW__API__WORKERS"] = str(workers)
    airflow.restart("api-server")
    airflow.wait_until_healthy(READY_SECONDS)
    at_once = workers * 4
    with ThreadPoolExecutor(at_once) as threads:
        urls = [f"{airflow.url}/execution/health"] * at_once * 2
        for answer in threads.map(partial(requests.get, timeout=READY_SECONDS), urls):
            answer.raise_for_status()


def _with_workers(measured: Throughput, database: Database, workers: int, size: Size) -> Found:
    found: Found = {}
    for slow, dispatchers in ((False, size.dispatchers), (True, size.slow)):
        fault = measured.service.fault("slow", times=None, seconds=SLOW_ANSWER_SECONDS) if slow else None
        cases = [Case(workers, count, slow) for count in dispatchers]
        for _ in range(1 if slow else size.rounds):
            for case in cases:
                found.setdefault(case, []).append(_started(measured, case, size.messages))
        if fault:
            measured.service.emulator.faults.clear(fault)
        # What was started before must not slow down what comes after it.
        database.execute("DELETE FROM dag_run WHERE dag_id = 'dispatch_target'")
    return found


def _started(measured: Throughput, case: Case, messages: int) -> Started:
    airflow = measured.airflow
    meter = Meter({SERVER: of(lambda: airflow.pids("api-server")), POSTGRES: postgres_seconds})
    work = measured.dispatched(messages, dispatchers=case.dispatchers)
    return Started(work.rate, work.count, meter.window())


def rows(found: Found, size: Size) -> list[Row]:
    """Each case beside one task with the fewest workers."""
    least = {case.slow: case for case in reversed(found)}
    shown = []
    for case, started in found.items():
        what = f"DAG runs started, {size.messages} messages, {case}"
        rates, beside = [each.rate for each in started], least[case.slow]
        point = Point(RATE, case.curve, case.workers)
        if case == beside:
            shown.append(single(what, "1/s", rates, point=point))
        else:
            theirs = [each.rate for each in found[beside]]
            shown.append(compared(what, "1/s", rates, str(beside), theirs, point=point))
        shown += _cost(what, started)
    return shown


def _cost(what: str, started: list[Started]) -> list[Row]:
    cores = psutil.cpu_count() or 1
    of_group = [
        single(
            f"{what}: CPU of {group} per DAG run",
            "ms",
            [each.load.used[group] / each.count * 1000 for each in started],
        )
        for group in (SERVER, POSTGRES)
    ]
    busy = [each.load.share(MACHINE) / cores for each in started]
    return [*of_group, single(f"{what}: CPU of {MACHINE}", "% of its cores", busy)]
