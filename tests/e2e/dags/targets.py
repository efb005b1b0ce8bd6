"""DAGs that messages start."""

import time
from pathlib import Path

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, task

picky = {"message": Param({}, type="object", properties={"payload": {"required": ["amount"]}})}
# It rejects messages by their ids, whatever their payloads are.
fastidious = {"message": Param({}, type="object", properties={"id": {"pattern": "^good"}})}
for name, params in {"target": {}, "picky": picky, "fastidious": fastidious, "dead_letters": {}}.items():
    with DAG(name, schedule=None, max_active_runs=100, params=params):
        # No worker is needed for it: what most tests count is runs, not tasks.
        EmptyOperator(task_id="nothing")

with DAG("greeting", schedule=None, params={"message": Param("hello", type="string")}):
    # Its param has the name of a field of our conf: every run is rejected, with the message in the reason.
    EmptyOperator(task_id="nothing")

gated = {"message": Param({}, type="object", properties={"payload": {"required": ["gate"]}})}
with DAG("gated", schedule=None, max_active_runs=100, params=gated):

    @task
    def wait_at_gate(dag_run=None):
        """Runs until the file exists that the message names."""
        while not Path(dag_run.conf["message"]["payload"]["gate"]).exists():
            time.sleep(0.1)

    wait_at_gate()
