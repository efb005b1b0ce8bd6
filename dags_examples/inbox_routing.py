"""One inbox, several DAGs: the first expression that is true for a message chooses the DAG."""

import logging
from datetime import datetime

from airflow.sdk import dag, task

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

log = logging.getLogger(__name__)


@dag(
    schedule="@continuous",
    max_active_runs=1,
    start_date=datetime(2025, 1, 1),
    tags=["example", "workflow"],
    doc_md=__doc__,
)
def event_router():
    WorkflowInboxSensor(
        task_id="route",
        inbox="events",
        trigger_dag_id={
            "on_refund": "payload.type == 'refund'",
            "on_large_payment": "payload.type == 'payment' && to_number(payload.amount) >= `1000`",
            "on_event": "id",  # last, and true for every message: none is left without a DAG
        },
        max_unfinished_runs=50,  # then nothing is leased until runs have ended
        deferrable=True,
    )


# A loop instead of three functions: these DAGs differ only in their ids.
for dag_id in ("on_refund", "on_large_payment", "on_event"):

    @dag(dag_id, schedule=None, tags=["example", "workflow"], doc_md=__doc__)
    def on_message():
        @task(retries=3)
        def handle(dag_run=None):
            log.info("Event: %s", dag_run.conf["message"]["payload"])

        handle()

    on_message()

event_router()
