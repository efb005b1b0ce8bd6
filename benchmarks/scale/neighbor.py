"""
What many started DAG runs do to another DAG: how long its runs wait until their first task runs, while up to
10,000 runs of one DAG are unfinished; beside the same with ``max_unfinished_runs``, and beside nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_workflow.emulator.server import EmulatorServer
from benchmarks.results import Point, Row, alone
from benchmarks.scale.deployment import Database, metadata_database
from benchmarks.scale.wanted import Wanted
from benchmarks.stage import private_folder, stage
from tools.local_airflow import LocalAirflow

DAGS = Path(__file__).parent / "dags"
PROBE, FLOODED, FLOOD, LIMITED = "neighbor", "flooded", "flood", "limited"
PARALLELISM = 4
STARTED_SECONDS = 900.0
"""How long the runs may take to be started at most."""
CHANGED_SECONDS = 120.0
"""The same, of a change in a DAG file until Airflow has read it."""
PROBED_SECONDS = 180.0
"""From the last probe on. A probe without a task by then has waited for longer, which is said."""
STEPS = ("queued to running", "running to its task queued", "task queued to task running")
DELAY = "scale-neighbor"
PUT_AT_ONCE = 1000

UNFINISHED = "SELECT count(*) FROM dag_run WHERE dag_id = %s AND state IN ('queued', 'running')"
MAX_ACTIVE = "SELECT max_active_runs FROM dag WHERE dag_id = %s"
PROBED = """
    SELECT run.run_id, extract(epoch FROM run.queued_at)::float8, extract(epoch FROM run.start_date)::float8,
        extract(epoch FROM task.queued_dttm)::float8, extract(epoch FROM task.start_date)::float8
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
    active: Sequence[int] = (16, 256)
    probes: int = 15
    apart: float = 4.0


QUICK = Size(messages=(10, 40), limit=4, active=(4, 8), probes=2, apart=2.0)


@dataclass(frozen=True)
class Probed:
    """
    How long runs of the other DAG waited.

    :param what: meanwhile.
    :param unfinished: runs of the first DAG at each probe.
    :param steps: of each run whose task began in time, seconds for each of :data:`STEPS`.
    :param late: runs whose task did not begin in time.
    """

    what: str
    unfinished: list[int] = field(default_factory=list)
    steps: list[tuple[float, ...]] = field(default_factory=list)
    late: int = 0

    @property
    def totals(self) -> list[float]:
        return [sum(each) for each in self.steps]


def size_of(wanted: Wanted) -> Size:
    size = QUICK if wanted.quick else Size()
    if wanted.messages is None:
        return size
    few = max(1, wanted.messages // 10)
    return Size(**{**vars(size), "messages": sorted({few, wanted.messages})})


def run(wanted: Wanted) -> list[Row]:
    """Measure; ``messages`` is the largest number of runs, after a tenth of it."""
    size = size_of(wanted)
    with private_folder() as folder, metadata_database() as database:
        active = folder / "active"
        active.write_text(str(size.active[0]))
        env = {
            "WORKFLOW_BENCH_LIMIT": str(size.limit),
            "WORKFLOW_BENCH_ACTIVE": str(active),
            # Another max_active_runs is read within some seconds.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
        }
        dag_ids = [PROBE, FLOODED, FLOOD, LIMITED]
        options = {"folder": DAGS, "env": env, "parallelism": PARALLELISM, "sql_alchemy_conn": database.url}
        with stage("neighbor", dag_ids, [FLOOD, LIMITED], **options) as (service, airflow):
            return rows(Neighbor(service, airflow, database, size, active).probed())


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

    def probed(self) -> list[Probed]:
        """Probe beside nothing, with the limit, and with more and more runs."""
        self._probe("warming up", FLOODED, 1)
        found = [self._probe("no other runs", FLOODED, self.size.probes), self._with_limit()]
        started = 0
        for count in self.size.messages:
            self._flood(count - started)
            started = count
            found.append(self._flooded(f"{count} runs started"))
        for number in self.size.active[1:]:
            self._change(number)
            found.append(self._flooded(f"{started} runs started"))
        return found

    def _change(self, active: int) -> None:
        """Change ``max_active_runs`` of the DAG that has many runs."""
        self.active.write_text(str(active))
        self._wait(lambda: self.database.value(MAX_ACTIVE, FLOODED) == active, CHANGED_SECONDS)

    def _flooded(self, what: str) -> Probed:
        active = self.database.value(MAX_ACTIVE, FLOODED)
        return self._probe(f"{what}, max_active_runs={active}", FLOODED, self.size.probes)

    def _with_limit(self) -> Probed:
        """Messages wait in the inbox, and their listener starts few runs at a time."""
        count = max(self.size.messages)
        self._put(LIMITED, count)
        self._wait(lambda: self.database.value(UNFINISHED, LIMITED) > 0, CHANGED_SECONDS)
        what = f"{count} messages, max_unfinished_runs={self.size.limit}"
        found = self._probe(what, LIMITED, self.size.probes)
        self.airflow.api.pause(f"{LIMITED}_listener")
        self._wait(lambda: self.database.value(UNFINISHED, LIMITED) == 0, CHANGED_SECONDS)
        self.airflow.api.pause(LIMITED)
        return found

    def _flood(self, count: int) -> None:
        self._put(FLOOD, count)
        run_id = self.airflow.api.trigger_dag(FLOOD)
        self.airflow.api.wait_for_run(FLOOD, run_id, STARTED_SECONDS)

    def _put(self, inbox: str, count: int) -> None:
        for begin in range(0, count, PUT_AT_ONCE):
            some = range(begin, min(begin + PUT_AT_ONCE, count))
            self.service.put(inbox, *({"number": number} for number in some))

    def _probe(self, what: str, other: str, probes: int) -> Probed:
        """Start runs of the other DAG, and wait for their tasks."""
        print(f"  {what} ...", flush=True)
        unfinished, run_ids = [], set()
        for _ in range(probes):
            unfinished.append(self.database.value(UNFINISHED, other))
            run_ids.add(self.airflow.api.trigger_dag(PROBE))
            time.sleep(self.size.apart)
        self._wait(lambda: run_ids <= set(self._begun()), PROBED_SECONDS)
        begun = self._begun()
        steps = [begun[run_id] for run_id in run_ids if run_id in begun]
        return Probed(what, unfinished, steps, len(run_ids) - len(steps))

    def _begun(self) -> dict[str, tuple[float, ...]]:
        """The seconds of each step, by the id of the run."""
        return {
            run_id: (started - queued, task_queued - started, task_started - task_queued)
            for run_id, queued, started, task_queued, task_started in self.database.rows(PROBED, PROBE)
        }

    def _wait(self, done: Callable[[], bool], seconds: float) -> None:
        """Wait so long at most; what did not happen shows in the figures."""
        with contextlib.suppress(TimeoutError):
            self.airflow.api.wait_until(done, seconds, "it is awaited", interval=0.5)


def rows(found: Sequence[Probed]) -> list[Row]:
    """The delay in each case, and its parts."""
    shown = []
    for each in found:
        what = f"{each.what}: another DAG"
        unfinished = f"{each.what}: unfinished runs"
        if each.steps:
            point = Point(DELAY, "queued to first task running", each.what)
            shown.append(alone(f"{what}, queued to first task running", "s", each.totals, point=point))
            shown += [
                alone(f"{what}, {step}", "s", [steps[number] for steps in each.steps])
                for number, step in enumerate(STEPS)
            ]
        shown += [
            alone(f"{what}, no task {PROBED_SECONDS:g} s after the last", "runs", [each.late]),
            alone(unfinished, "runs", each.unfinished),
        ]
    return shown
