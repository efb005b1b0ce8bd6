"""Ways of starting many DAG runs, to be compared: each DAG tells how many it started, and in what time."""

from datetime import datetime

from airflow.sdk import DAG, task

from benchmarks.measured import BareOperator, MeasuredBatchOperator, MeasuredDispatchOperator

START = datetime(2025, 1, 1)

for target in ("dispatch_target", "bare_target", "rest_target"):
    # Paused, so that only the starting of runs is measured and not the running.
    with DAG(target, schedule=None, start_date=START, is_paused_upon_creation=True):

        @task
        def nothing():
            return None

        nothing()

with DAG("dispatch", schedule=None, start_date=START, max_active_runs=4):
    MeasuredDispatchOperator(task_id="start_runs", inbox="throughput", trigger_dag_id="dispatch_target")

with DAG("checked", schedule=None, start_date=START):
    MeasuredDispatchOperator(
        task_id="start_runs",
        inbox="throughput",
        trigger_dag_id="dispatch_target",
        once_per="id",
        schema={"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    )


def ignore(messages):
    """What a task does with a batch: nothing, so that leasing and acknowledging are measured."""


with DAG("batches", schedule=None, start_date=START):
    MeasuredBatchOperator(task_id="start_runs", inbox="throughput", python_callable=ignore)

with DAG("bare", schedule=None, start_date=START):
    BareOperator(task_id="start_runs", trigger_dag_id="bare_target")
