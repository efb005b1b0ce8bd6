"""The target DAGs of the recipes with a dispatch. This file is broken and mended while messages come."""

from datetime import timedelta

from airflow.sdk import DAG, Param, task

PATIENT = {"retries": 100, "retry_delay": timedelta(seconds=2), "max_retry_delay": timedelta(seconds=10)}
REQUIRED = {"need": Param(type="string")}
PARAMS = {}

for dag_id in ("handle_sensor", "handle_notice"):
    with DAG(dag_id, schedule=None, max_active_runs=32, params=PARAMS):

        @task(**PATIENT)
        def handle(dag_run=None):
            print(dag_run.conf["message"]["payload"]["number"])

        handle()
