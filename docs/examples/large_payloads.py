"""Orders with documents of several MB, which are in the object storage and not in Airflow's database."""

from airflow.sdk import task

from airflow_provider_workflow.decorators import inbox_dag


@task(retries=3)
def archive(message):
    document = message["payload"]["document"]  # read here, in the task
    return len(document)


@inbox_dag(inbox="orders", tags=["example"])
def archive_order(message):
    archive(message)
