"""
Count runs of a DAG that overlap though it has ``max_active_runs=1``: two schedulers start them at once.

    WORKFLOW_TEST_POSTGRES=postgresql://postgres@127.0.0.1:5432/postgres python -m tools.overlapping_runs

It starts an Airflow with two schedulers on a new database of that server, queues runs of paused DAGs,
unpauses them, and reads when each run began and ended. Nothing of this package takes part: it is Airflow
alone. The exit status is 1 if runs overlapped. Whatever it started is ended, and the database is dropped.

docs/decisions/airflow.md says why runs overlap.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.crash.topology import POSTGRES_VARIABLE, database, for_airflow
from tools.local_airflow import COMPONENTS, LocalAirflow

DAGS = """
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

for number in range({count}):
    with DAG(f"one_at_a_time_{{number}}", schedule=None, max_active_runs=1):
        EmptyOperator(task_id="nothing")
"""
"""The scheduler itself ends such a task, so that no worker limits how many runs there are."""
SETTINGS = {
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
    # A scheduler that has tasks to queue does not sleep between its loops; these have none.
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0",
}


@dataclass(frozen=True)
class Overlaps:
    """
    How runs of DAGs with ``max_active_runs=1`` ran.

    :param runs: that were started.
    :param overlapped: of these, how many ran beside another run of their DAG.
    :param out_of_order: how many were started before a run of their DAG that was queued earlier.
    """

    runs: int
    overlapped: int
    out_of_order: int

    @property
    def text(self) -> str:
        """As a line to print."""
        return (
            f"{self.runs} runs, {self.overlapped} overlapped another run of their DAG,"
            f" {self.out_of_order} started before one that was queued earlier"
        )


def overlaps(runs_by_dag: Iterable[Sequence[Mapping[str, Any]]]) -> Overlaps:
    """
    Count, from runs as Airflow's REST API returns them.

    :param runs_by_dag: the runs of each DAG, in the order in which they were queued.
    """
    count = overlapped = out_of_order = 0
    for runs in runs_by_dag:
        spans = [span_of(run) for run in runs if run["start_date"]]
        count += len(spans)
        overlapped += sum(
            any(
                start < other_end and other_start < end
                for other, (other_start, other_end) in enumerate(spans)
                if other != number
            )
            for number, (start, end) in enumerate(spans)
        )
        out_of_order += sum(
            any(start < earlier for earlier, _ in spans[:number]) for number, (start, _) in enumerate(spans)
        )
    return Overlaps(count, overlapped, out_of_order)


def span_of(run: Mapping[str, Any]) -> tuple[float, float]:
    """When a run began and ended, in epoch seconds; infinity for one that has not ended."""
    start = datetime.fromisoformat(run["start_date"]).timestamp()
    end = run["end_date"]
    return start, datetime.fromisoformat(end).timestamp() if end else float("inf")


def measure(address: str, home: Path, *, schedulers: int, dags: int, runs: int, seconds: float) -> Overlaps:
    """
    Queue runs, let the schedulers start them, and count.

    :param address: of an empty PostgreSQL database.
    :param home: a folder for Airflow.
    :param dags: how many DAGs there are.
    :param runs: of each of them.
    :param seconds: after which runs that are still queued are left so.
    """
    folder = home / "dags"
    folder.mkdir()
    (folder / "one_at_a_time.py").write_text(DAGS.format(count=dags))
    components = {f"scheduler-{number}": COMPONENTS["scheduler"] for number in range(1, schedulers + 1)}
    components |= {name: COMPONENTS[name] for name in ("triggerer", "dag-processor", "api-server")}
    dag_ids = [f"one_at_a_time_{number}" for number in range(dags)]
    # All other intervals are Airflow's own.
    options: dict[str, Any] = {"components": components, "quick": False}
    with LocalAirflow(
        home / "airflow", folder, env=SETTINGS, sql_alchemy_conn=for_airflow(address), **options
    ) as airflow:
        api = airflow.api
        airflow.wait_for_dags(dag_ids)
        for _ in range(runs):
            for dag_id in dag_ids:
                api.trigger_dag(dag_id)
        for dag_id in dag_ids:
            api.unpause(dag_id)
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at and any(
            api.dag_runs(dag_id, state=state) for state in ("queued", "running") for dag_id in dag_ids
        ):
            time.sleep(2)
        return overlaps([api.dag_runs(dag_id) for dag_id in dag_ids])


def main() -> int:
    """Measure, and print what was counted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--schedulers", type=int, default=2, help="how many (2); with 1, no runs overlap")
    parser.add_argument("--dags", type=int, default=4, help="with max_active_runs=1 (4)")
    parser.add_argument("--runs", type=int, default=100, help="queued for each of them (100)")
    parser.add_argument("--seconds", type=float, default=120, help="to let them run (120)")
    arguments = parser.parse_args()
    server = os.environ.get(POSTGRES_VARIABLE)
    if not server:
        print(f"Set {POSTGRES_VARIABLE}, such as to postgresql://postgres@127.0.0.1:5432/postgres")
        return 2
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, database(server) as address:
        counted = measure(address, Path(home), **vars(arguments))
    print(f"Schedulers: {arguments.schedulers}, max_active_runs=1: {counted.text}")
    return 1 if counted.overlapped else 0


if __name__ == "__main__":
    sys.exit(main())
