"""DAGs that take messages into their own run. The inbox comes with the run's conf."""

import json
from datetime import timedelta

from airflow.sdk import DAG, task

from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

DEFERRED = {"deferrable": True, "poll_interval": 1, "max_poll_interval": 2}
RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=3), "retry_exponential_backoff": False}
INBOX = {"task_id": "work", "inbox": "{{ dag_run.conf['inbox'] }}"}


@task
def read(value):
    """What a later task gets, as ASCII text that no database and no log can change."""
    return json.dumps(value)


if airflow_release() >= (3, 3):
    for dag_id, arguments in {"receiver": {}, "receiver_that_logs": {"on_rejected": "log"}}.items():
        with DAG(dag_id, schedule=None):
            read(WorkflowInboxSensor(**INBOX, **DEFERRED, **RETRIES, **arguments).output)
