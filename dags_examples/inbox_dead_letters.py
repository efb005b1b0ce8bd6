"""A message without a run of its DAG starts one of "dead_payment", which stores, reports and replays it."""

import logging
from datetime import datetime
from tempfile import gettempdir
from typing import Any

from airflow.sdk import ObjectStoragePath, chain, dag, task

from airflow_provider_workflow.operators.dead_letters import WorkflowDeadLetterReplayOperator
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

log = logging.getLogger(__name__)
FOLDER = f"{gettempdir()}/dead_payments"  # better a bucket, such as "s3://payments/dead"
LISTENER: dict[str, Any] = {
    "schedule": "@continuous",
    "max_active_runs": 1,
    "start_date": datetime(2025, 1, 1),
}


@dag(**LISTENER, tags=["example", "workflow"], doc_md=__doc__)
def payment_listener():
    WorkflowInboxSensor(
        task_id="start_runs",
        inbox="payments",
        trigger_dag_id={"handle_payment": "payload.amount"},
        dead_letter_dag_id="dead_payment",
        dead_letter_after=1,  # at once; by default on the third delivery
        unmatched="dead_letter",
        deferrable=True,
    )


@dag(schedule=None, tags=["example", "workflow"], doc_md=__doc__)
def handle_payment():
    @task(retries=3)
    def handle(dag_run=None):
        log.info("Payment: %s", dag_run.conf["message"]["payload"])

    handle()


@dag(
    schedule=None,
    params={"folder": FOLDER},
    default_args={"retries": 3},
    tags=["example", "workflow"],
    doc_md=__doc__,
)
def dead_payment():
    @task
    def store(params=None, dag_run=None):
        path = ObjectStoragePath(params["folder"]) / f"{dag_run.run_id}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dag_run.conf["message_json"])  # the exact message, as ASCII JSON
        return str(path)

    @task
    def notify(path, dag_run=None):  # replace it with a notifier, such as SmtpNotifier
        letter = dag_run.conf
        log.error("Dead letter %s (%s): %s", letter["message_id"], letter["reason"], letter["cause"])
        log.error("Its message is in %s", path)

    @task.branch
    def decide(dag_run=None):
        return "drop" if dag_run.conf["reason"] in ("rejected", "invalid", "unmatched") else "replay"

    @task
    def drop():
        log.info("Replay it by hand once its DAG is corrected: airflow-workflow dead-letters replay ...")

    # While the DAG rejects the message this is retried, for two and a half days.
    replay = WorkflowDeadLetterReplayOperator(task_id="replay", trigger_dag_id="handle_payment", retries=20)
    chain(notify(store()), decide(), [replay, drop()])


payment_listener()
handle_payment()
dead_payment()
