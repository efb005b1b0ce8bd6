"""
How long the notice recipe takes from a message to its DAG run, beside the floor of its own shape, in turns:
a watcher that needs no network, an asset event, a DAG run, a task, one supervisor call. And where the time
goes, by the timestamps in Airflow's database and in the service's log.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.fifo import tell
from benchmarks.results import Point, Row, Target, alone, compared
from benchmarks.scale.deployment import Database, metadata_database
from benchmarks.scale.steps import IN_OPERATOR, STEPS, Taken, moments_of, taken
from benchmarks.scale.wanted import Wanted
from benchmarks.stage import stage
from tools.local_airflow import LocalAirflow

DAGS = Path(__file__).parent / "dags"
NOTICE, FLOOR = "notice", "floor"
SHOWN = {NOTICE: "notice recipe", FLOOR: "floor of its shape"}
ROUNDS = 30
QUICK_ROUNDS = 2
IDLE_SECONDS = 10.0
"""From the DAGs' first sight until the first message, in which the watchers begin to wait."""
LONGEST_SECONDS = 90.0
"""A message without a DAG run after this time ends the benchmark."""
REST_SECONDS = (3.0, 5.0)
"""Between two messages, chosen at random, so that no loop of Airflow is met in step; with seed 1."""
NEAR_THE_FLOOR = Target("ratio", "<=", 1.2)
TOTAL, PARTS = "scale-latency", "scale-latency-steps"

LISTENER_STATE = "SELECT state FROM dag_run WHERE dag_id = %s ORDER BY id DESC LIMIT 1"
COUNT = "SELECT count(*) FROM dag_run WHERE dag_id = %s"

Samples = Mapping[str, Sequence[Taken]]


def run(wanted: Wanted) -> list[Row]:
    """Measure; ``messages`` is the number of rounds."""
    rounds = wanted.messages or (QUICK_ROUNDS if wanted.quick else ROUNDS)
    with tempfile.TemporaryDirectory() as pipes, metadata_database() as database:
        pipe = f"{pipes}/floor"
        os.mkfifo(pipe)
        env = {"WORKFLOW_BENCH_PIPE": pipe}
        dag_ids = [*SHOWN, *(f"{name}_target" for name in SHOWN)]
        with stage("latency", dag_ids, [NOTICE], folder=DAGS, env=env, sql_alchemy_conn=database.url) as (
            service,
            airflow,
        ):
            time.sleep(IDLE_SECONDS)
            ways = {NOTICE: lambda: service.put(NOTICE, {"number": 1}), FLOOR: lambda: tell(pipe)}
            return rows(Turns(service, airflow, database).taken(ways, rounds))


@dataclass(frozen=True)
class Turns:
    """Gives each way one message a round; the one that began a round is last in the next."""

    service: EmulatorServer
    airflow: LocalAirflow
    database: Database

    def taken(self, ways: Mapping[str, Callable[[], object]], rounds: int) -> Samples:
        """What each message took, by the name of the way."""
        chance = random.Random(1)
        samples: dict[str, list[Taken]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            names = list(ways) if number % 2 else list(ways)[::-1]
            for name in names:
                one = self._one(name, ways[name])
                if number:  # the first round warms everything up
                    samples[name].append(one)
                time.sleep(chance.uniform(*REST_SECONDS))
        return samples

    def _one(self, name: str, put: Callable[[], object]) -> Taken:
        target = f"{name}_target"
        before, put_at = self.database.value(COUNT, target), time.time()
        put()
        self.airflow.api.wait_until(
            lambda: (
                self.database.value(COUNT, target) > before
                and self.database.value(LISTENER_STATE, name) == "success"
            ),
            LONGEST_SECONDS,
            f"a run of {target}, and the end of its listener",
            interval=0.1,
        )
        return taken(moments_of(self.database, name, target, put_at), self.service.requests)


def rows(samples: Samples) -> list[Row]:
    """The total beside that of the floor, and each step beside that of the floor."""
    ours, floor = samples[NOTICE], samples[FLOOR]
    beside = SHOWN[FLOOR]
    found = [
        compared(
            f"put to DAG run queued: {SHOWN[NOTICE]}",
            "s",
            [each.total for each in ours],
            beside,
            [each.total for each in floor],
            NEAR_THE_FLOOR,
            Point(TOTAL, "put to DAG run queued", SHOWN[NOTICE]),
        ),
        alone(
            f"put to DAG run queued: {beside}",
            "s",
            [each.total for each in floor],
            point=Point(TOTAL, "put to DAG run queued", beside),
        ),
        compared(
            f"of it, steps that are not Airflow's alone: {SHOWN[NOTICE]}",
            "s",
            [each.own for each in ours],
            beside,
            [each.own for each in floor],
        ),
    ]
    for number, step in enumerate(STEPS):
        for name, series in samples.items():
            seconds = [each.steps[number] for each in series]
            point = Point(PARTS, step, SHOWN[name])
            found.append(alone(f"{SHOWN[name]}, step {number + 1}: {step}", "s", seconds, point=point))
    inside = [each.in_operator for each in ours if each.in_operator]
    for number, part in enumerate(IN_OPERATOR if inside else ()):
        what = f"{SHOWN[NOTICE]}, step {len(STEPS)}: {part}"
        found.append(alone(what, "s", [each[number] for each in inside]))
    return found
