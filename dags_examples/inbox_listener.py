"""Every message of the inbox "orders" starts one run of the DAG "handle_order"."""

import logging
from datetime import datetime

from airflow.sdk import dag, task

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

log = logging.getLogger(__name__)


# "@continuous" starts the next run when one has ended, so that one run always waits for messages.
@dag(
    schedule="@continuous",
    max_active_runs=1,
    start_date=datetime(2025, 1, 1),
    tags=["example", "workflow"],
    doc_md=__doc__,
)
def order_listener():
    # Deferrable: it waits in the triggerer, and a worker is busy only while runs are started.
    WorkflowInboxSensor(task_id="start_runs", inbox="orders", trigger_dag_id="handle_order", deferrable=True)


# No schedule: only the messages start it.
@dag(schedule=None, tags=["example", "workflow"], doc_md=__doc__)
def handle_order():
    @task(retries=3)  # Airflow's default is 0
    def handle(dag_run=None):
        message = dag_run.conf["message"]
        log.info("Order %s: %s", message["id"], message["payload"])

    handle()


order_listener()
handle_order()
