"""A DAG that others delay, and what starts many runs of one DAG, with and without a limit."""

import os
from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG, task

from airflow_provider_workflow.decorators import inbox_dag
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator

START = datetime(2025, 1, 1)
LIMIT = int(os.environ["WORKFLOW_BENCH_LIMIT"])
ACTIVE = Path(os.environ["WORKFLOW_BENCH_ACTIVE"])
"""A file with ``max_active_runs`` of the DAG that has many runs: it changes while Airflow runs."""


@task
def handle():
    return None


with DAG("neighbor", schedule=None, start_date=START, max_active_runs=1000):
    handle()

with DAG("flooded", schedule=None, start_date=START, max_active_runs=int(ACTIVE.read_text())):
    handle()

with DAG("flood", schedule=None, start_date=START):
    WorkflowInboxDispatchOperator(task_id="start_runs", inbox="flood", trigger_dag_id="flooded")


@inbox_dag(inbox="limited", max_unfinished_runs=LIMIT)
def limited(message):
    handle()
