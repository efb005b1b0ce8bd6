"""DAGs with ``@inbox_dag``, one with each listener."""

import json

from airflow.sdk import task

from airflow_provider_workflow.decorators import inbox_dag


@task
def read_payload(message):
    """The payload as a task reads it, as ASCII text; and whether it came as text."""
    return json.dumps({"payload": message["payload"], "as_text": "payload_json" in message})


for listener in ("notice", "sensor"):
    arguments = {"inbox": f"decorated-{listener}", "dag_id": f"decorated_by_{listener}", "listener": listener}

    @inbox_dag(**arguments, max_active_runs=100)
    def handle(message):
        read_payload(message)
