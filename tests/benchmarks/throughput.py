"""
How many DAG runs one task starts per second, beside the bare supervisor call in a loop and a mapped
``TriggerDagRunOperator`` in the same Airflow.
"""

from __future__ import annotations

from tests.benchmarks.results import Row, compared
from tests.benchmarks.stage import epoch, stage
from tools.local_airflow import LocalAirflow

MESSAGES = 500
MAPPED = 50
QUICK_MESSAGES = 20


def run(quick: bool) -> list[Row]:
    """Measure; ``quick`` with few messages."""
    messages, mapped = (QUICK_MESSAGES, QUICK_MESSAGES) if quick else (MESSAGES, MAPPED)
    with stage(["dispatch", "bare", "mapped"]) as (service, airflow):
        service.put("throughput", *({"number": number} for number in range(messages)))
        ours = _rate(airflow, "dispatch")
        bare = _rate(airflow, "bare", messages)
        slow = _rate(airflow, "mapped", mapped)
    what = f"DAG runs started by one task, {messages} messages"
    return [
        compared(what, "1/s", [ours], "bare supervisor call", [bare]),
        compared(what, "1/s", [ours], f"mapped TriggerDagRunOperator, {mapped}", [slow]),
    ]


def _rate(airflow: LocalAirflow, dag_id: str, count: int = 0) -> float:
    """Runs per second between the first and the last that this DAG starts."""
    run_id = airflow.api.trigger_dag(dag_id, conf={"count": count})
    airflow.api.wait_for_run(dag_id, run_id, 300)
    moments = sorted(epoch(run["queued_at"]) for run in airflow.api.dag_runs(f"{dag_id}_target"))
    return (len(moments) - 1) / (moments[-1] - moments[0])
