"""Every message of the inbox "signups" starts one run of the DAG "welcome"."""

import logging

from airflow.sdk import task

from airflow_provider_workflow.decorators import inbox_dag

log = logging.getLogger(__name__)


@inbox_dag(inbox="signups", example={"name": "Ada"}, tags=["example"])
@task(retries=3)
def welcome(message):
    log.info("Welcome, %s", message["payload"]["name"])
