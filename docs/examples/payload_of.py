"""A handler that reads the payload of its message, which may be any JSON value."""

import logging
from datetime import datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, task

from airflow_provider_workflow.dispatch.payloads import payload_of

log = logging.getLogger(__name__)

with DAG(
    "handle_measurement",
    schedule=None,
    start_date=datetime(2025, 1, 1),
    default_args={"retries": 3},
    user_defined_filters={"payload_of": payload_of},
    tags=["example"],
) as dag:

    @task
    def handle(dag_run=None):
        log.info("Measured: %s", payload_of(dag_run.conf["message"])["value"])

    show = BashOperator(
        task_id="show",
        bash_command='echo "Measured: $VALUE"',
        env={"VALUE": "{{ (dag_run.conf['message'] | payload_of)['value'] }}"},
    )

    handle() >> show
