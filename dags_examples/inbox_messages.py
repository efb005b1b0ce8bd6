"""Get the messages themselves: stored by Airflow, acknowledged, and returned (Airflow 3.3 or later)."""

import logging

from airflow.sdk import dag, task

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

log = logging.getLogger(__name__)


@dag(schedule=None, tags=["example", "workflow"], doc_md=__doc__)
def collect_readings():
    # Without trigger_dag_id the sensor returns the messages of one lease to its own DAG.
    wait = WorkflowInboxSensor(task_id="wait", inbox="readings", deferrable=True)

    @task(retries=3)  # the messages are acknowledged already
    def work(messages):
        for message in messages:
            log.info("Reading %s: %s", message["id"], message["payload"])

    work(wait.output)


collect_readings()
