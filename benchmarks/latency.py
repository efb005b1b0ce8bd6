"""
How long from putting a message to its DAG run queued, while the listener waits in the triggerer and has
nothing else to do: our ways, beside a sensor of SQS, and beside the floor: a watcher that needs no network,
an asset event, a DAG run, a task, and one supervisor call. All take turns in one Airflow, with single
messages.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks.results import Row, compared, in_turns
from benchmarks.sqs import queues
from benchmarks.stage import epoch, stage
from benchmarks.timed import PIPE_VARIABLE, notify
from tools.local_airflow import LocalAirflow

ROUNDS, QUICK_ROUNDS = 50, 1
OURS = {
    "sensor": "sensor",
    "checked": "sensor with a business key and a schema",
    "notice": "notice recipe",
    "event": "event trigger",
}
BESIDE = {
    "floor": "trigger without network, supervisor call",
    "queue": "SqsSensor, TriggerDagRunOperator, at their fastest",
}
AT_MOST = {"floor": 1.2, "queue": 1.0}
"""By what is compared: the ratio that is aimed at."""
IDLE_SECONDS = 15.0
"""From the DAGs' first sight to the first message, in which the listeners begin to wait."""
MAX_SECONDS = 90.0
"""A message without a DAG run after this time ends the benchmark."""
REST_SECONDS = (1.0, 3.0)
"""Between two messages, for what the last one set off to come to its end."""


def run(*, quick: bool) -> list[Row]:
    """Measure; ``quick`` with few rounds."""
    with queues() as sqs, tempfile.TemporaryDirectory() as folder:
        pipe, queue = f"{folder}/floor", sqs.open_queue("queue")
        os.mkfifo(pipe)
        env = {PIPE_VARIABLE: pipe, "WORKFLOW_BENCH_QUEUE": queue}
        dag_ids = [f"{name}_target" for name in (*OURS, *BESIDE)]
        connections = {"aws_default": sqs.connection}
        with stage("dags/latency.py", dag_ids, list(OURS), connections, env=env) as (service, airflow):
            time.sleep(IDLE_SECONDS)
            puts: dict[str, Callable[[], object]] = {
                **{name: partial(service.put, name, {"number": 1}) for name in OURS},
                "floor": lambda: notify(pipe),
                "queue": lambda: sqs.send(queue, {"number": 1}),
            }
            ways = {
                name: partial(seconds_until_queued, airflow, f"{name}_target", put_message)
                for name, put_message in puts.items()
            }
            return rows(in_turns(ways, QUICK_ROUNDS if quick else ROUNDS, REST_SECONDS))


def rows(samples: Mapping[str, Sequence[float]]) -> list[Row]:
    """Each way of ours beside the floor, and beside the sensor of SQS."""
    return [
        compared(
            f"put to DAG run queued: {label}",
            "s",
            samples[name],
            beside,
            samples[other],
            at_most=AT_MOST[other],
        )
        for other, beside in BESIDE.items()
        for name, label in OURS.items()
    ]


def seconds_until_queued(airflow: LocalAirflow, dag_id: str, put_message: Callable[[], object]) -> float:
    """Put one message; seconds until its run is queued."""

    def newest() -> tuple[str, str]:
        params = {"limit": 1, "order_by": "-id"}
        runs = airflow.api.request("GET", f"dags/{dag_id}/dagRuns", params=params)["dag_runs"]
        return (runs[0]["dag_run_id"], runs[0]["queued_at"]) if runs else ("", "")

    before, put_at = newest(), time.time()
    put_message()
    airflow.api.wait_until(lambda: newest() != before, MAX_SECONDS, f"a run of {dag_id}", interval=0.2)
    return epoch(newest()[1]) - put_at
