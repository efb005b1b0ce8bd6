"""Ways of starting many DAG runs, to be compared: each DAG says how many it started, and in what time."""

import time
from datetime import datetime

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, task

from benchmarks.measured import MeasuredBatchOperator, MeasuredDispatchOperator

START = datetime(2025, 1, 1)


for target in ("dispatch_target", "bare_target", "mapped_target", "rest_target"):
    # Paused, so that only the starting of runs is measured and not the running.
    with DAG(target, schedule=None, start_date=START, is_paused_upon_creation=True):

        @task
        def nothing():
            return None

        nothing()


with DAG("dispatch", schedule=None, start_date=START, max_active_runs=4):
    MeasuredDispatchOperator(task_id="start_runs", inbox="throughput", trigger_dag_id="dispatch_target")


def ignore(messages):
    """What a task does with a batch: nothing, so that leasing and acknowledging are measured."""


with DAG("batches", schedule=None, start_date=START):
    MeasuredBatchOperator(task_id="start_runs", inbox="throughput", python_callable=ignore)

with DAG("bare", schedule=None, start_date=START):

    @task
    def start_runs(dag_run=None):
        """The floor: the supervisor call alone, with the same conf."""
        from airflow.sdk.execution_time import task_runner
        from airflow.sdk.execution_time.comms import TriggerDagRun

        began_at, count = time.time(), dag_run.conf["count"]
        for number in range(count):
            conf = {"inbox_id": "x" * 36, "message": {"id": "x" * 36, "payload": {"number": number}}}
            run_id = f"bare__{began_at}_{number}"
            task_runner.SUPERVISOR_COMMS.send(TriggerDagRun(dag_id="bare_target", run_id=run_id, conf=conf))
        return {"count": count, "began_at": began_at, "ended_at": time.time()}

    start_runs()

with DAG("mapped", schedule=None, start_date=START):

    @task
    def confs(dag_run=None):
        return [{"conf": {"number": number}} for number in range(dag_run.conf["count"])]

    TriggerDagRunOperator.partial(task_id="start_run", trigger_dag_id="mapped_target").expand_kwargs(confs())
