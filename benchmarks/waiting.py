"""
What watchers of 10, 100 and 1000 inboxes take while nothing arrives: CPU, memory and sockets of the process
in a real triggerer that runs them, polling every 5 s and with event streams; beside triggers that only sleep,
and beside ``SqsSensorTrigger``.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.results import Row, alone
from benchmarks.sqs import queues
from benchmarks.watchers import (
    IDLE_SECONDS,
    LISTENING,
    POLLED_QUEUE,
    POLLING,
    QUEUE_VARIABLE,
    SLEEPING,
    Measurement,
    Trigger,
    inbox_names,
    measure_triggerer,
    watching,
)

SETTLE_SECONDS = 60.0
"""A triggerer starts 50 triggers a second."""
QUICK_COUNT, QUICK_SECONDS = 10, 10.0


@dataclass(frozen=True)
class Case:
    """
    :param what: triggers of one kind.
    :param count: how many.
    """

    what: str
    count: int
    trigger: Trigger


NOTHING = Case("no triggers", 0, SLEEPING)
POLLS_QUEUES = "SqsSensorTrigger, 5 s polls"
CASES = (
    NOTHING,
    Case("triggers that only sleep", 1000, SLEEPING),
    *(Case("watchers, event streams", count, LISTENING) for count in (10, 100, 1000)),
    *(Case("watchers, 5 s polls", count, POLLING) for count in (100, 1000)),
    Case(POLLS_QUEUES, 100, POLLED_QUEUE),
)


def run(*, quick: bool) -> list[Row]:
    """Measure; ``quick`` for few watchers, and a shorter time."""
    counts = [min(case.count, QUICK_COUNT) if quick else case.count for case in CASES]
    settle_seconds, seconds = (QUICK_SECONDS, QUICK_SECONDS) if quick else (SETTLE_SECONDS, IDLE_SECONDS)
    measurements: list[tuple[Case, Measurement]] = []
    with EmulatorServer() as service, queues() as sqs:
        names = inbox_names(max(counts))
        urls = [(service.open_inbox(name), sqs.open_queue(name))[1] for name in names]
        connections = {"workflow_default": service.connection_json(), "aws_default": sqs.connection}
        env = {QUEUE_VARIABLE: urls[0].removesuffix(names[0])}
        for case, count in zip(CASES, counts, strict=True):
            print(f"  {count} {case.what} ...", flush=True)
            polls = sqs.polls if case.what == POLLS_QUEUES else lambda: service.count("list_messages")
            with watching(count, case.trigger, connections, env, settle_seconds) as airflow:
                measurements.append(
                    (Case(case.what, count, case.trigger), measure_triggerer(airflow, polls, seconds))
                )
    return rows(measurements)


def rows(measurements: list[tuple[Case, Measurement]]) -> list[Row]:
    """What is shown of each case; the first is a triggerer without triggers."""
    idle_share = measurements[0][1].share
    rows_of_cases = []
    for case, measurement in measurements:
        title = f"{case.count} {case.what}" if case.count else case.what
        rows_of_cases += [
            alone(f"{title}: share of one core", "%", [measurement.share]),
            alone(f"{title}: memory", "MB", [measurement.megabytes]),
            alone(f"{title}: sockets", "sockets", [measurement.sockets]),
        ]
        if case.trigger in (POLLING, POLLED_QUEUE):
            cost = measurement.per_1000_polls(idle_share)
            rows_of_cases.append(alone(f"{title}: CPU per 1000 polls", "s", [cost]))
    return rows_of_cases
