"""The notice recipe, and the least of its shape: an asset event, a DAG run, a task, one supervisor call."""

import os
from datetime import datetime

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher

from airflow_provider_workflow.assets import schedule_of
from benchmarks.measured import BareOperator, MeasuredDispatchOperator
from benchmarks.timed import PIPE_VARIABLE, PipeTrigger, TimedNoticeTrigger

START = datetime(2025, 1, 1)
TRIGGERS = {"notice": TimedNoticeTrigger("notice"), "floor": PipeTrigger(os.environ[PIPE_VARIABLE])}


def watched(name):
    return Asset(name, watchers=[AssetWatcher(name=name, trigger=TRIGGERS[name])])


with DAG("notice", schedule=schedule_of(watched("notice")), start_date=START, max_active_runs=1):
    MeasuredDispatchOperator(task_id="start_runs", inbox="notice", trigger_dag_id="notice_target")

with DAG("floor", schedule=schedule_of(watched("floor")), start_date=START, max_active_runs=1):
    BareOperator(task_id="start_runs", trigger_dag_id="floor_target")

for name in TRIGGERS:
    # Paused, so that only the starting of runs is measured and not the running.
    with DAG(f"{name}_target", schedule=None, start_date=START, is_paused_upon_creation=True):
        EmptyOperator(task_id="nothing")
