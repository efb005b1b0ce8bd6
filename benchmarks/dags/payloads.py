"""Dispatchers with payloads in confs and in a store, and targets whose runs wait in the queue."""

import time
from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG, task

from benchmarks.measured import MeasuredDispatchOperator, MeasuredStoringOperator

START = datetime(2025, 1, 1)
ARGUMENTS = {
    "task_id": "start_runs",
    "inbox": "payloads",
    "trigger_dag_id": "{{ dag_run.conf.get('target', 'paused_target') }}",
}

# Paused, so that only the starting of runs is measured and not the running.
with DAG("paused_target", schedule=None, start_date=START, is_paused_upon_creation=True):

    @task
    def nothing():
        return None

    nothing()

for name in ("small", "large", "stored"):
    with DAG(f"queue_{name}", schedule=None, start_date=START, max_active_runs=1):

        @task
        def wait():
            """The other runs stay queued."""
            while Path(__file__).exists():
                time.sleep(5)

        wait()

with DAG("in_confs", schedule=None, start_date=START):
    MeasuredDispatchOperator(**ARGUMENTS)

with DAG("in_store", schedule=None, start_date=START):
    MeasuredStoringOperator(**ARGUMENTS)
