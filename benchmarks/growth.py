"""
How what it takes grows: with the messages that wait, with the size of their payloads, and with the inboxes
that are watched. Each is shown beside the least of its kind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.process import cpu_seconds
from benchmarks.results import Row, alone, compared
from benchmarks.stage import epoch, stage
from benchmarks.throughput import Throughput, Work
from benchmarks.watchers import Triggerers, listening, triggerer_of
from tools.local_airflow import LocalAirflow

T = TypeVar("T")

TEXT_FREE_BYTES = 30
"""What a payload has beside its text."""
APART_SECONDS = 6.0
"""Between two messages to watched inboxes: a watcher rests for 5 s after it rang."""
PER_RUN: dict[str, Callable[[Work], float]] = {
    "time per DAG run": lambda work: work.seconds / work.count * 1000,
    "CPU of the task per DAG run": lambda work: work.used / work.count * 1000,
}
"""In milliseconds."""
LONGEST_SECONDS = 90.0
"""A message that has set nothing off by then never will."""


@dataclass(frozen=True)
class Size:
    """
    How much is measured.

    :param rounds: in which each number of messages, and each payload, has its turn.
    :param messages: that wait in an inbox when a task begins.
    :param payloads: bytes.
    :param of_a_size: messages with each of them.
    :param inboxes: watched by one triggerer.
    :param samples: messages to each number of inboxes.
    """

    rounds: int = 2
    messages: tuple[int, ...] = (1, 10, 100, 1000, 10_000)
    payloads: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    of_a_size: int = 100
    inboxes: tuple[int, ...] = (1, 10, 100, 1000)
    samples: int = 15


QUICK = Size(1, messages=(1, 20), payloads=(1000, 100_000), of_a_size=5, inboxes=(1, 5), samples=2)


def run(quick: bool) -> list[Row]:
    """Measure; ``quick`` with little of everything."""
    size = QUICK if quick else Size()
    return [*_of_backlogs(size), *of_inboxes(size)]


def _of_backlogs(size: Size) -> list[Row]:
    waiting: dict[int, list[Work]] = {count: [] for count in size.messages}
    large: dict[int, list[Work]] = {length: [] for length in size.payloads}
    with stage("throughput", ["dispatch"], ["throughput"]) as (service, airflow):
        measured = Throughput(service, airflow)
        for _ in range(size.rounds):
            for count, works in waiting.items():
                works.append(measured.dispatched(count))
            for length, works in large.items():
                works.append(measured.dispatched(size.of_a_size, text="x" * (length - TEXT_FREE_BYTES)))
    return [
        *work_rows({f"messages that wait: {count}": works for count, works in waiting.items()}),
        *work_rows(
            {f"payloads of {length / 1000:g} kB, {size.of_a_size}": works for length, works in large.items()}
        ),
    ]


def work_rows(found: dict[str, list[Work]]) -> list[Row]:
    """What one DAG run took, each beside the first."""
    rows = []
    for what, works in found.items():
        for measure, of in PER_RUN.items():
            rows.append(_beside_the_least(f"{what}: {measure}", "ms", what, found, of))
        rows.append(alone(f"{what}: memory that the task grows by", "MB", [work.grown for work in works]))
    return rows


def _beside_the_least(
    shown: str, unit: str, name: str, found: dict[str, list[T]], of: Callable[[T], float]
) -> Row:
    """A row of the samples of one name, beside those of the first."""
    least = next(iter(found))
    ours = [of(each) for each in found[name]]
    if name == least:
        return alone(shown, unit, ours)
    return compared(shown, unit, ours, least, [of(each) for each in found[least]])


@dataclass(frozen=True)
class Watched:
    """
    What was seen of so many watched inboxes.

    :param seconds: from each message to the DAG run that its inbox's watcher sets off.
    :param share: percent of one core that the triggers' process takes meanwhile.
    """

    seconds: list[float]
    share: float


def of_inboxes(size: Size) -> list[Row]:
    found = {}
    for count in size.inboxes:
        print(f"  {count} watched ...", flush=True)
        found[f"inboxes watched: {count}"] = watched(count, size.samples)
    seconds = {name: watched.seconds for name, watched in found.items()}
    shares = {name: [watched.share] for name, watched in found.items()}
    pace = f"share of one core, a message every {APART_SECONDS:g} s"
    rows = []
    for name in found:
        what = f"{name}: put to DAG run of the asset queued"
        rows.append(_beside_the_least(what, "s", name, seconds, float))
        rows.append(_beside_the_least(f"{name}: {pace}", "%", name, shares, float))
    return rows


def watched(count: int, samples: int) -> Watched:
    with EmulatorServer() as service:
        for number in range(count):
            service.open_inbox(f"inbox_{number}")
        with Triggerers(service).running(listening(count, APART_SECONDS)) as airflow:
            pid = triggerer_of(airflow)
            began_at, used = time.monotonic(), cpu_seconds(pid)
            seconds = [_rung(service, airflow, f"inbox_{n}") for n in spread(samples, count)]
            share = (cpu_seconds(pid) - used) / (time.monotonic() - began_at) * 100
            return Watched(seconds, share)


def spread(samples: int, count: int) -> Iterable[int]:
    """So many of ``count`` inboxes, far apart; those that there are, again, where they are fewer."""
    return (number * max(1, count // samples) % count for number in range(samples))


def _rung(service: EmulatorServer, airflow: LocalAirflow, inbox: str) -> float:
    """Put a message, and take it away again; seconds until the consumer's run is queued."""
    before, put_at = len(airflow.api.dag_runs("consumer")), time.time()
    service.put(inbox, {"number": 1})
    airflow.api.wait_until(
        lambda: len(airflow.api.dag_runs("consumer")) > before,
        LONGEST_SECONDS,
        "a run is queued",
        interval=0.2,
    )
    queued_at = epoch(airflow.api.dag_runs("consumer")[-1]["queued_at"])
    inbox_id = service.open_inbox(inbox)
    lease_id = service.store.messages.lease(inbox_id)["lease_id"]
    service.store.messages.acknowledge(inbox_id, lease_id)
    time.sleep(APART_SECONDS)
    return queued_at - put_at
