"""How long from put to DAG run queued, and how many DAG runs one task starts per second.

``python -m tests.benchmarks.first_figures`` prints both, beside the bare supervisor call and a mapped
``TriggerDagRunOperator`` in the same Airflow. Figures are only comparable within one run.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.runs import run_id_of
from tools.local_airflow import LocalAirflow

SINGLE_MESSAGES = 40
MESSAGES = 500
MAPPED = 50
ARMED_SECONDS = 7.0
"""How long a listener that waits in the triggerer is left alone before the next message is put."""


def epoch(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def main() -> None:
    home = Path(tempfile.mkdtemp(prefix="workflow-bench-"))
    with EmulatorServer() as service:
        for name in ("latency", "throughput"):
            service.open_inbox(name)
        connections = {"workflow_default": service.connection_json()}
        folder = Path(__file__).parent / "dags"
        with LocalAirflow(
            home,
            folder,
            connections,
            parallelism=2,
            quick=False,
            env={"AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5"},
        ) as airflow:
            airflow.wait_for_dags(["latency_listener", "latency_target", "dispatch", "bare", "mapped"])
            throughput(service, airflow)
            latency(service, airflow)


def latency(service: EmulatorServer, airflow: LocalAirflow) -> None:
    """Single messages, each put when the listener waits in the triggerer again."""
    delays = []
    for number in range(SINGLE_MESSAGES):
        airflow.api.wait_until(lambda: _armed(airflow), 90, "the listener waits in the triggerer")
        time.sleep(ARMED_SECONDS)
        put_at = time.time()
        (message_id,) = service.put("latency", {"number": number})
        run_id = run_id_of(message_id)
        run = airflow.api.wait_for_run("latency_target", run_id, 60, states=("queued",))
        delays.append(epoch(run["queued_at"]) - put_at)
    print(
        f"put to DAG run queued, {len(delays)} single messages: median {statistics.median(delays):.2f} s,"
        f" worst {max(delays):.2f} s, best {min(delays):.2f} s"
    )


def _armed(airflow: LocalAirflow) -> bool:
    runs = airflow.api.dag_runs("latency_listener")
    if not runs or runs[-1]["state"] != "running":
        return False
    tasks = airflow.api.task_instances("latency_listener", runs[-1]["dag_run_id"])
    return [each["state"] for each in tasks] == ["deferred"]


def throughput(service: EmulatorServer, airflow: LocalAirflow) -> None:
    service.put("throughput", *({"number": number} for number in range(MESSAGES)))
    run_id = airflow.api.trigger_dag("dispatch")
    airflow.api.wait_for_run("dispatch", run_id, 120)
    moments = sorted(epoch(run["queued_at"]) for run in airflow.api.dag_runs("dispatch_target"))
    ours = rate(moments)
    run_id = airflow.api.trigger_dag("bare", conf={"count": MESSAGES})
    airflow.api.wait_for_run("bare", run_id, 120)
    bare = rate(sorted(epoch(run["queued_at"]) for run in airflow.api.dag_runs("bare_target")))
    run_id = airflow.api.trigger_dag("mapped", conf={"count": MAPPED})
    airflow.api.wait_for_run("mapped", run_id, 300)
    mapped = rate(sorted(epoch(run["queued_at"]) for run in airflow.api.dag_runs("mapped_target")))
    print(f"DAG runs per second from one task: dispatch of {MESSAGES} messages {ours:.1f}")
    print(f"  bare loop of the supervisor call, {MESSAGES}: {bare:.1f} (dispatch is {ours / bare:.0%} of it)")
    print(
        f"  mapped TriggerDagRunOperator, {MAPPED}: {mapped:.2f} (dispatch is {ours / mapped:.0f} times it)"
    )


def rate(moments: list[Any]) -> float:
    """Runs per second between the first and the last."""
    return float((len(moments) - 1) / (moments[-1] - moments[0]))


if __name__ == "__main__":
    main()
