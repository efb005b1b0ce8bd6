"""DAGs that take messages into their own run. The inbox comes with the run's conf."""

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from airflow_provider_workflow.versions import airflow_release

DEFERRED = {"deferrable": True, "poll_interval": 1, "max_poll_interval": 2}
RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=3)}
SENSORS = {"lender": {**DEFERRED, "acknowledge": "manual"}}
if airflow_release() >= (3, 3):
    SENSORS["receiver"] = {**DEFERRED, **RETRIES}
    SENSORS["receiver_that_logs"] = {**DEFERRED, **RETRIES, "on_refused": "log"}

for dag_id, arguments in SENSORS.items():
    with DAG(dag_id, schedule=None, max_active_runs=20):
        WorkflowInboxSensor(task_id="work", inbox="{{ dag_run.conf['inbox'] }}", **arguments)
