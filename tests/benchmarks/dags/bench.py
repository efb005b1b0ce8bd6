"""DAGs that the benchmarks start, and the ways of starting them that are compared."""

import time
from datetime import datetime, timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, task

from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

START = datetime(2025, 1, 1)

with DAG("latency_listener", schedule="@continuous", max_active_runs=1, start_date=START):
    WorkflowInboxSensor(
        task_id="start_runs",
        inbox="latency",
        trigger_dag_id="latency_target",
        deferrable=True,
        retries=5,
        retry_delay=timedelta(seconds=5),
    )

for target in ("latency_target", "dispatch_target", "bare_target", "mapped_target"):
    # Paused, so that only the starting of runs is measured and not the running.
    with DAG(target, schedule=None, start_date=START, is_paused_upon_creation=True):

        @task
        def nothing():
            return None

        nothing()

with DAG("dispatch", schedule=None, start_date=START):
    WorkflowInboxDispatchOperator(task_id="start_runs", inbox="throughput", trigger_dag_id="dispatch_target")

with DAG("bare", schedule=None, start_date=START):

    @task
    def bare_loop(dag_run=None):
        """The floor: the supervisor call alone, with the same conf."""
        from airflow.sdk.execution_time import task_runner
        from airflow.sdk.execution_time.comms import TriggerDagRun

        started = time.monotonic()
        for number in range(dag_run.conf["count"]):
            conf = {"inbox_id": "x" * 36, "message": {"id": str(number), "payload": {"number": number}}}
            task_runner.SUPERVISOR_COMMS.send(
                TriggerDagRun(dag_id="bare_target", run_id=f"bare__{number}", conf=conf)
            )
        return time.monotonic() - started

    bare_loop()

with DAG("mapped", schedule=None, start_date=START):

    @task
    def confs(dag_run=None):
        return [{"conf": {"number": number}} for number in range(dag_run.conf["count"])]

    TriggerDagRunOperator.partial(task_id="start_run", trigger_dag_id="mapped_target").expand_kwargs(confs())
