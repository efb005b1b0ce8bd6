"""
How many DAG runs are started per second on PostgreSQL: by 1, 2 and 4 workers of the API server, by one
dispatching task and by several, and with a service that takes 200 ms for each answer.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import requests

from benchmarks.meter import MACHINE, Meter, Window, cpu_of, cpu_of_postgres
from benchmarks.results import Point, Row, alone
from benchmarks.servers import metadata_database
from benchmarks.stage import stage
from benchmarks.throughput import DAG_IDS, FILE, INBOX, Tasks, Work
from tools.local_airflow import LocalAirflow

SERVER, POSTGRES = "API server", "PostgreSQL"
READY_SECONDS = 240.0
SLOW_ANSWER_SECONDS = 0.2
PLOT = "scale-runs"


@dataclass(frozen=True)
class Case:
    """
    What is the same for all rounds.

    :param workers: of the API server.
    :param tasks: that dispatch side by side.
    :param slow: whether each answer of the service takes 200 ms.
    """

    workers: int
    tasks: int
    slow: bool

    @property
    def curve(self) -> str:
        """Its curve over the number of workers."""
        tasks = "one task" if self.tasks == 1 else f"{self.tasks} tasks"
        return f"{tasks}, {SLOW_ANSWER_SECONDS * 1000:g} ms latency" if self.slow else tasks


def run(*, quick: bool, messages: int | None = None) -> list[Row]:
    """Measure; ``messages`` wait in the inbox each time."""
    workers, counts, rounds = ((1, 2), (1, 2), 1) if quick else ((1, 2, 4), (1, 4), 2)
    messages = messages or (20 if quick else 1000)
    rows: list[Row] = []
    with (
        metadata_database() as database,
        stage(FILE, DAG_IDS, [INBOX], sql_alchemy_conn=database.url) as (service, airflow),
    ):
        tasks = Tasks(service, airflow)
        for number in workers:
            print(f"  API server workers: {number} ...", flush=True)
            serve_with(airflow, number)
            tasks.dispatch(max(counts) * 10, tasks=max(counts))
            for slow in (False, True):
                fault = service.fault("slow", times=None, seconds=SLOW_ANSWER_SECONDS) if slow else None
                for count in counts:
                    works = [_measured(tasks, messages, count) for _ in range(1 if slow else rounds)]
                    rows += rows_of(Case(number, count, slow), messages, works)
                if fault:
                    service.emulator.faults.clear(fault)
                # What was started before must not slow down what comes after it.
                database.rows("DELETE FROM dag_run WHERE dag_id = 'dispatch_target'")
    return rows


def serve_with(airflow: LocalAirflow, workers: int) -> None:
    """
    Start the API server again, with so many workers.

    Each worker sets up its API for tasks at the first request for it, and answers nothing meanwhile. So
    many requests at once reach all of them.
    """
    airflow.env["AIRFLOW__API__WORKERS"] = str(workers)
    airflow.restart("api-server")
    airflow.wait_until_healthy(READY_SECONDS)
    with ThreadPoolExecutor(workers * 4) as threads:
        urls = [f"{airflow.url}/execution/health"] * workers * 8
        for answer in threads.map(partial(requests.get, timeout=READY_SECONDS), urls):
            answer.raise_for_status()


def _measured(tasks: Tasks, messages: int, count: int) -> tuple[Work, Window]:
    """What tasks did, and the load meanwhile and while they were scheduled."""
    meter = Meter({SERVER: cpu_of(lambda: tasks.airflow.pids("api-server")), POSTGRES: cpu_of_postgres})
    return tasks.dispatch(messages, tasks=count), meter.window()


def rows_of(case: Case, messages: int, works: list[tuple[Work, Window]]) -> list[Row]:
    """The rate of a case, and what a run cost."""
    title = f"DAG runs started, {messages} messages, {case.curve}, API server workers: {case.workers}"
    return [
        alone(title, "1/s", [work.rate for work, _ in works], Point(PLOT, case.curve, case.workers)),
        *(
            alone(
                f"{title}: CPU of {group} per DAG run",
                "ms",
                [window.used[group] / work.count * 1000 for work, window in works],
            )
            for group in (SERVER, POSTGRES)
        ),
        alone(f"{title}: CPU of {MACHINE}", "% of its cores", [window.machine for _, window in works]),
    ]
