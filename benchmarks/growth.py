"""
How what it takes grows: with the messages that wait, with the size of their payloads, and with the inboxes
that are watched.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.meter import Meter, cpu_of
from benchmarks.results import Row, alone
from benchmarks.stage import epoch, stage
from benchmarks.throughput import DAG_IDS, FILE, INBOX, Tasks, Work
from benchmarks.watchers import (
    LISTENING,
    TRIGGERS,
    consumer_of,
    inbox_names,
    runner_of,
    spread,
    watching,
)
from tools.local_airflow import LocalAirflow

TEXT_FREE_BYTES = 30
"""What a payload has beside its text."""
APART_SECONDS = 6.0
"""Between two messages to watched inboxes: a watcher rests for 5 s after it emitted an event."""
MAX_SECONDS = 90.0


@dataclass(frozen=True)
class Size:
    """
    How much is measured.

    :param messages: that wait in an inbox when a task begins.
    :param payloads: bytes.
    :param of_a_size: messages with each of them.
    :param inboxes: watched by one triggerer.
    :param samples: messages to each number of inboxes.
    :param settle_seconds: until all of these have a trigger that waits.
    """

    rounds: int = 2
    messages: tuple[int, ...] = (1, 10, 100, 1000, 10_000)
    payloads: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    of_a_size: int = 100
    inboxes: tuple[int, ...] = (1, 10, 100, 1000)
    samples: int = 15
    settle_seconds: float = 60.0


QUICK = Size(1, (1, 20), (1000, 100_000), of_a_size=5, inboxes=(1, 5), samples=2, settle_seconds=15)


def run(*, quick: bool) -> list[Row]:
    """Measure; ``quick`` with little of everything."""
    size = QUICK if quick else Size()
    rows: list[Row] = []
    with stage(FILE, DAG_IDS, [INBOX]) as (service, airflow):
        tasks = Tasks(service, airflow)
        for count in size.messages:
            works = [tasks.dispatch(count) for _ in range(size.rounds)]
            rows += work_rows(f"messages that wait: {count}", works)
        for length in size.payloads:
            text = "x" * (length - TEXT_FREE_BYTES)
            works = [tasks.dispatch(size.of_a_size, text=text) for _ in range(size.rounds)]
            rows += work_rows(f"payloads of {length / 1000:g} kB, {size.of_a_size}", works)
    for count in size.inboxes:
        print(f"  {count} watched ...", flush=True)
        rows += _watched(count, size)
    return rows


def work_rows(title: str, works: list[Work]) -> list[Row]:
    """What one DAG run took."""
    return [
        alone(f"{title}: time per DAG run", "ms", [work.seconds / work.count * 1000 for work in works]),
        alone(
            f"{title}: CPU of the task per DAG run", "ms", [work.used / work.count * 1000 for work in works]
        ),
        alone(f"{title}: memory that the task grows by", "MB", [work.grown for work in works]),
    ]


def _watched(count: int, size: Size) -> list[Row]:
    with EmulatorServer() as service:
        for name in inbox_names(count):
            service.open_inbox(name)
        connections = {"workflow_default": service.connection_json()}
        with watching(count, LISTENING, connections, {}, size.settle_seconds) as airflow:
            runner = runner_of(airflow)
            meter = Meter({TRIGGERS: cpu_of(lambda: [runner])})
            seconds = [_noticed(service, airflow, number) for number in spread(size.samples, count)]
            share = meter.window().share(TRIGGERS)
    title = f"inboxes watched: {count}"
    return [
        alone(f"{title}: put to DAG run of the asset queued", "s", seconds),
        alone(f"{title}: share of one core, a message every {APART_SECONDS:g} s", "%", [share]),
    ]


def _noticed(service: EmulatorServer, airflow: LocalAirflow, number: int) -> float:
    """Put a message, and take it away again; seconds until the consumer's run is queued."""
    inbox, consumer = f"inbox_{number}", consumer_of(number)
    before, put_at = len(airflow.api.dag_runs(consumer)), time.time()
    service.put(inbox, {"number": 1})
    runs = airflow.api.wait_until(
        lambda: airflow.api.dag_runs(consumer)[before:], MAX_SECONDS, f"a run of {consumer}"
    )
    inbox_id = service.open_inbox(inbox)
    lease_id = service.store.messages.lease(inbox_id)["lease_id"]
    service.store.messages.acknowledge(inbox_id, lease_id)
    time.sleep(APART_SECONDS)
    return epoch(runs[0]["queued_at"]) - put_at
