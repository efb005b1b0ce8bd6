"""The target DAGs of the recipes with a dispatch. This file is broken and mended while messages come."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param

WHOLE = {"message": Param({}, type="object", properties={"id": {"not": {"pattern": "^poison-"}}})}
REQUIRED = {**WHOLE, "need": Param(type="string")}
PARAMS = WHOLE

for dag_id in ("handle_sensor", "handle_notice"):
    with DAG(dag_id, schedule=None, max_active_runs=100, params=PARAMS):
        # No worker is needed for it: runs are counted, and a thousand tasks take longer than their dispatch.
        EmptyOperator(task_id="handle")
