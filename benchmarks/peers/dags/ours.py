"""One DAG run per message of an inbox."""

from airflow.sdk import task

from airflow_provider_workflow.decorators import inbox_dag


@inbox_dag(inbox="ours")
@task
def ours(message):
    return [message["payload"]["number"]]
