"""How long from putting a message, while the listener waits in the triggerer, to its DAG run queued."""

from __future__ import annotations

import time

from airflow_provider_workflow.emulator.server import EmulatorServer
from airflow_provider_workflow.runs import run_id_of
from tests.benchmarks.results import Row, alone
from tests.benchmarks.stage import epoch, stage
from tools.local_airflow import LocalAirflow

MESSAGES = 40
QUICK_MESSAGES = 3
ARMED_SECONDS = 7.0
"""How long a listener that waits in the triggerer is left alone before the next message is put."""


def run(quick: bool) -> list[Row]:
    """Measure; ``quick`` with few repeats."""
    with stage("latency", ["latency_listener", "latency_target"], ["latency"]) as (service, airflow):
        count = QUICK_MESSAGES if quick else MESSAGES
        delays = [_delay(service, airflow, number) for number in range(count)]
    return [alone("put to DAG run queued, single messages", "s", delays)]


def _delay(service: EmulatorServer, airflow: LocalAirflow, number: int) -> float:
    """Seconds for one message."""
    airflow.api.wait_until(lambda: _armed(airflow), 90, "the listener waits in the triggerer")
    time.sleep(ARMED_SECONDS)
    put_at = time.time()
    (message_id,) = service.put("latency", {"number": number})
    run = airflow.api.wait_for_run("latency_target", run_id_of(message_id), 60, states=("queued",))
    return epoch(run["queued_at"]) - put_at


def _armed(airflow: LocalAirflow) -> bool:
    runs = airflow.api.dag_runs("latency_listener")
    if not runs or runs[-1]["state"] != "running":
        return False
    tasks = airflow.api.task_instances("latency_listener", runs[-1]["dag_run_id"])
    return [each["state"] for each in tasks] == ["deferred"]
