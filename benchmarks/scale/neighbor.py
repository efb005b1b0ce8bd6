"""
What many started DAG runs do to another DAG: how long its runs wait until their first task runs, while up to
10,000 runs of one DAG are unfinished; beside the same with ``max_unfinished_runs``, and beside nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.results import Point, Row, alone
from benchmarks.servers import Database, metadata_database
from benchmarks.stage import put, stage, wait
from tools.local_airflow import LocalAirflow

PROBE, FLOODED, FLOOD, LIMITED = "neighbor", "flooded", "flood", "limited"
PARALLELISM = 4
STARTED_SECONDS = 900.0
"""How long the runs may take to be started at most."""
CHANGED_SECONDS = 120.0
"""The same, of a change in a DAG file until Airflow has read it."""
PROBED_SECONDS = 180.0
"""From the last probe on. A probe without a task by then has waited for longer, which is said."""
STEPS = ("queued to running", "running to its task queued", "task queued to task running")
PLOT = "scale-neighbor"

UNFINISHED = "SELECT count(*) FROM dag_run WHERE dag_id = %s AND state IN ('queued', 'running')"
MAX_ACTIVE = "SELECT max_active_runs FROM dag WHERE dag_id = %s"
PROBED = """
    SELECT run.run_id, extract(epoch FROM run.start_date - run.queued_at)::float8,
        extract(epoch FROM task.queued_dttm - run.start_date)::float8,
        extract(epoch FROM task.start_date - task.queued_dttm)::float8
    FROM dag_run run JOIN task_instance task ON task.dag_id = run.dag_id AND task.run_id = run.run_id
    WHERE run.dag_id = %s AND task.start_date IS NOT NULL
"""


@dataclass(frozen=True)
class Size:
    """
    How much is measured.

    :param messages: numbers of unfinished runs, one after the other.
    :param limit: ``max_unfinished_runs``.
    :param active: ``max_active_runs`` of the DAG that has the runs: Airflow's default, and more.
    :param probes: runs of the other DAG, each time.
    :param apart: seconds between two of them.
    """

    messages: Sequence[int] = (1000, 10_000)
    limit: int = 32
    active: tuple[int, int] = (16, 256)
    probes: int = 15
    apart: float = 4.0


QUICK = Size(messages=(10, 40), limit=4, active=(4, 8), probes=2, apart=2.0)


def run(*, quick: bool, messages: int | None = None) -> list[Row]:
    """Measure; ``messages`` is the largest number of runs, after a tenth of it."""
    size = QUICK if quick else Size()
    if messages:
        size = replace(size, messages=sorted({max(1, messages // 10), messages}))
    with tempfile.TemporaryDirectory() as folder, metadata_database() as database:
        active = Path(folder) / "active"
        active.write_text(str(size.active[0]))
        env = {
            "WORKFLOW_BENCH_LIMIT": str(size.limit),
            "WORKFLOW_BENCH_ACTIVE": str(active),
            # Another max_active_runs is read within some seconds.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
        }
        options = {"env": env, "parallelism": PARALLELISM, "sql_alchemy_conn": database.url}
        dag_ids = [PROBE, FLOODED, FLOOD, LIMITED]
        with stage("dags/neighbor.py", dag_ids, [FLOOD, LIMITED], **options) as (service, airflow):
            return Neighbor(service, airflow, database, size, active).rows()


@dataclass(frozen=True)
class Neighbor:
    """
    One DAG has many runs, and another one few.

    :param active: the file with ``max_active_runs`` of the first.
    """

    service: EmulatorServer
    airflow: LocalAirflow
    database: Database
    size: Size
    active: Path

    def rows(self) -> list[Row]:
        """Probe beside nothing, with the limit, and with more and more runs."""
        self._probe("warming up", 1)
        rows = [*self._probe("no other runs", self.size.probes), *self._with_limit()]
        run_count = 0
        for count in self.size.messages:
            put(self.service, FLOOD, count - run_count)
            run_id = self.airflow.api.trigger_dag(FLOOD)
            self.airflow.api.wait_for_run(FLOOD, run_id, STARTED_SECONDS)
            run_count = count
            rows += self._flooded(count, self.size.active[0])
        self.active.write_text(str(self.size.active[1]))
        self._wait(f"({MAX_ACTIVE}) = {self.size.active[1]}", FLOODED)
        return [*rows, *self._flooded(run_count, self.size.active[1])]

    def _flooded(self, count: int, active: int) -> list[Row]:
        return self._probe(f"{count} runs started, max_active_runs={active}", self.size.probes)

    def _with_limit(self) -> list[Row]:
        """Messages wait in the inbox, and their listener starts few runs at a time."""
        count = max(self.size.messages)
        put(self.service, LIMITED, count)
        self._wait(f"({UNFINISHED}) > 0", LIMITED)
        rows = self._probe(f"{count} messages, max_unfinished_runs={self.size.limit}", self.size.probes)
        self.airflow.api.pause(f"{LIMITED}_listener")
        self._wait(f"({UNFINISHED}) = 0", LIMITED)
        self.airflow.api.pause(LIMITED)
        return rows

    def _wait(self, condition: str, dag_id: str) -> None:
        wait(self.airflow, lambda: bool(self.database.value(f"SELECT {condition}", dag_id)), CHANGED_SECONDS)

    def _probe(self, title: str, probes: int) -> list[Row]:
        """Start runs of the other DAG, and wait for their tasks."""
        print(f"  {title} ...", flush=True)
        run_ids = set()
        for _ in range(probes):
            run_ids.add(self.airflow.api.trigger_dag(PROBE))
            time.sleep(self.size.apart)
        wait(self.airflow, lambda: run_ids <= set(self._begun()), PROBED_SECONDS)
        steps_by_run = self._begun()
        return rows_of(title, [steps_by_run[run_id] for run_id in run_ids if run_id in steps_by_run], probes)

    def _begun(self) -> dict[str, Sequence[float]]:
        """The seconds of each step, by the id of the run."""
        return {run_id: steps for run_id, *steps in self.database.rows(PROBED, PROBE)}


def rows_of(title: str, steps: Sequence[Sequence[float]], probes: int) -> list[Row]:
    """
    The delay in one case, and its parts.

    :param steps: seconds of each of :data:`STEPS`, of each run whose task began in time.
    """
    late = f"{title}: another DAG, no task {PROBED_SECONDS:g} s after the last"
    rows = [alone(late, "runs", [probes - len(steps)])]
    if steps:
        point = Point(PLOT, "queued to first task running", title)
        delays = [sum(seconds) for seconds in steps]
        rows.append(alone(f"{title}: another DAG, queued to first task running", "s", delays, point))
        rows += [
            alone(f"{title}: another DAG, {step}", "s", [seconds[number] for seconds in steps])
            for number, step in enumerate(STEPS)
        ]
    return rows
