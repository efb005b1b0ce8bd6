"""Store the messages of the inbox "measurements", up to 100 in one call of the function."""

import logging

from airflow.sdk import dag, task

from airflow_provider_workflow.decorators.workflow_inbox import MessagesFailed

log = logging.getLogger(__name__)


@dag(schedule=None, tags=["example", "workflow"], doc_md=__doc__)
def store_measurements():
    # Called batch after batch until the inbox is empty. A batch is acknowledged after the function returned.
    @task.workflow_inbox(inbox="measurements", batch_size=100)
    def store(messages=None):
        failed = {}
        for message in messages:
            payload = message["payload"]
            if isinstance(payload, dict) and "value" in payload:
                log.info("Measurement %s: %s", message["id"], payload)
            else:
                failed[message["id"]] = "it has no value"
        if failed:
            raise MessagesFailed(failed)  # the others are acknowledged, and these are redelivered

    store()


store_measurements()
