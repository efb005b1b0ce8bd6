"""Sensors whose tasks have queues: their triggers take them."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor

with DAG("target", schedule=None):
    EmptyOperator(task_id="nothing")

for queue in ("b", "default"):
    with DAG(f"sensor_of_{queue}", schedule=None):
        WorkflowInboxSensor(
            task_id="work",
            inbox=f"sensed_of_{queue}",
            trigger_dag_id="target",
            queue=queue,
            deferrable=True,
            poll_interval=1,
            max_poll_interval=2,
        )
