"""DAGs that messages start."""

import time
from pathlib import Path

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, task

with DAG("target", schedule=None, max_active_runs=100):
    # No worker is needed for it: what most tests count is runs, not tasks.
    EmptyOperator(task_id="nothing")

needs_an_amount = {"properties": {"payload": {"required": ["amount"]}}}
with DAG(
    "picky",
    schedule=None,
    max_active_runs=100,
    params={"message": Param({}, type="object", **needs_an_amount)},
):
    EmptyOperator(task_id="nothing")

accepts_good = {"properties": {"id": {"pattern": "^good"}}}
with DAG(
    "fastidious",
    schedule=None,
    max_active_runs=100,
    params={"message": Param({}, type="object", **accepts_good)},
):
    # It rejects messages by their ids, whatever their payloads are.
    EmptyOperator(task_id="nothing")

with DAG("dead_letters", schedule=None, max_active_runs=100):
    EmptyOperator(task_id="nothing")

with DAG("greeting", schedule=None, params={"message": Param("hello", type="string")}):
    # Its param has the name of a field of our conf: every run is rejected, with the message in the reason.
    EmptyOperator(task_id="nothing")

needs_a_gate = {"properties": {"payload": {"required": ["gate"]}}}
with DAG(
    "gated",
    schedule=None,
    max_active_runs=100,
    params={"message": Param({}, type="object", **needs_a_gate)},
):

    @task
    def wait_at_gate(dag_run=None):
        """Runs until the file exists that the message names."""
        while not Path(dag_run.conf["message"]["payload"]["gate"]).exists():
            time.sleep(0.1)

    wait_at_gate()
