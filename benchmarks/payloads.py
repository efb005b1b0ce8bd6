"""
What payloads cost in confs, and in a store on a disk: how many runs a task starts, what queued runs cost the
scheduler, and how much memory a task needs.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from typing import Any

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.measured import STORE_VARIABLE
from benchmarks.meter import Meter, cpu_of
from benchmarks.results import Row, alone, compared, in_turns
from benchmarks.stage import put, stage
from benchmarks.throughput import Tasks, Work
from tools.local_airflow import LocalAirflow

FILE = "dags/payloads.py"
IN_CONFS, IN_STORE = "in_confs", "in_store"
DAG_IDS = (IN_CONFS, IN_STORE, "queue_small", "queue_large", "queue_stored")
INBOX = "payloads"
SCHEDULER = "scheduler"
QUEUED = 20
SMALL, LARGE = 1000, 1_000_000
"""Bytes of a payload, about."""
SETTLE_SECONDS = 10.0


@dataclass(frozen=True)
class Size:
    """
    How much is measured.

    :param messages: that a task starts runs of.
    :param window: seconds for which the scheduler is watched.
    :param megabytes: of the payload that a task needs memory for.
    """

    rounds: int = 3
    messages: int = 500
    window: float = 40.0
    megabytes: int = 30


QUICK = Size(1, 20, 5.0, 2)


def run(*, quick: bool) -> list[Row]:
    """Measure; ``quick`` with little of everything."""
    size = QUICK if quick else Size()
    with (
        tempfile.TemporaryDirectory(prefix="workflow-bench-payloads-") as folder,
        stage(FILE, DAG_IDS, [INBOX], env={STORE_VARIABLE: f"file://{folder}"}) as (service, airflow),
    ):
        airflow.wait_for_dags(DAG_IDS)
        dispatching = Dispatching(service, airflow)
        return [
            *rates(dispatching, size),
            *memory(dispatching, size),
            *scheduling(dispatching, size),
        ]


@dataclass(frozen=True)
class Dispatching:
    """Tasks that dispatch messages."""

    service: EmulatorServer
    airflow: LocalAirflow

    def dispatch(self, dag_id: str, count: int, length: int, target: str = "paused_target") -> Work:
        """
        Start runs of messages.

        :param length: bytes of text in each payload.
        """
        put(self.service, INBOX, count, "x" * length)
        return Tasks(self.service, self.airflow).run(dag_id, target=target)

    def dispatch_one(self, dag_id: str, payload: Any) -> Work:
        """Start the run of one message."""
        self.service.put(INBOX, payload)
        return Tasks(self.service, self.airflow).run(dag_id)


def rates(dispatching: Dispatching, size: Size) -> list[Row]:
    """How many runs a task starts per second."""
    samples = in_turns(
        {
            dag_id: lambda dag_id=dag_id: dispatching.dispatch(dag_id, size.messages, SMALL).rate
            for dag_id in (IN_STORE, IN_CONFS)
        },
        size.rounds,
    )
    title = f"DAG runs started, payloads of {SMALL / 1000:g} kB in a store on a disk"
    return [compared(title, "1/s", samples[IN_STORE], "in confs", samples[IN_CONFS], at_least=0.6)]


def memory(dispatching: Dispatching, size: Size) -> list[Row]:
    """How much memory a task needs for each MB of a payload, by what it consists of."""
    length = size.megabytes * 1_000_000
    payloads: dict[str, Any] = {
        "one text": {"text": "x" * length},
        "small values": {"values": [{"n": number} for number in range(1_000_000, 1_000_000 + length // 16)]},
    }
    return [
        alone(
            f"memory of the task for each MB of a payload of {size.megabytes} MB in a store, {kind}",
            "MB",
            [dispatching.dispatch_one(IN_STORE, payload).grown / size.megabytes],
        )
        for kind, payload in payloads.items()
    ]


def scheduling(dispatching: Dispatching, size: Size) -> list[Row]:
    """What part of a core the scheduler uses while runs are queued."""
    ways = {
        "queue_small": (IN_CONFS, SMALL),
        "queue_large": (IN_CONFS, LARGE),
        "queue_stored": (IN_STORE, LARGE),
    }
    shares = {dag_id: queued(dispatching, size, dag_id, *way) for dag_id, way in ways.items()}
    title = f"share of a core that the scheduler uses, {QUEUED} queued runs of 1 MB"
    beside = "with 1 kB", [shares["queue_small"]]
    return [
        compared(f"{title} in confs", "%", [shares["queue_large"]], *beside),
        compared(f"{title} in a store", "%", [shares["queue_stored"]], *beside),
    ]


def queued(dispatching: Dispatching, size: Size, target: str, dag_id: str, length: int) -> float:
    """Percent of a core that the scheduler uses while runs of a DAG are queued."""
    airflow = dispatching.airflow
    dispatching.dispatch(dag_id, QUEUED + 1, length, target)
    time.sleep(SETTLE_SECONDS)
    meter = Meter({SCHEDULER: cpu_of(lambda: [airflow.leader("scheduler")])})
    time.sleep(size.window)
    share = meter.window().share(SCHEDULER)
    # The scheduler looks at no queued run of a paused DAG.
    airflow.api.pause(target)
    return share
