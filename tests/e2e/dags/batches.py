"""Tasks that process messages in batches, and write into a file what their function was given."""

import os
import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

INBOX = "{{ dag_run.conf['inbox'] }}"
RETRIES = {"retries": 5, "retry_delay": timedelta(seconds=2)}
PATIENT = {**RETRIES, "retries": 60, "retry_exponential_backoff": False}


def process(messages, dag_run=None):
    """
    Write the ids of the messages into the file that the run's conf names.

    A message with the id "killer" ends the process. While the file "<name>.hold" exists it does not return.
    """
    ids, name = [message["id"] for message in messages], dag_run.conf["file"]
    log, hold = Path(name), Path(f"{name}.hold")
    with log.open("a") as file:
        file.writelines(f"given {message_id}\n" for message_id in ids)
    while hold.exists():
        time.sleep(0.05)
    if "killer" in ids:
        os._exit(9)
    with log.open("a") as file:
        file.writelines(f"done {message_id}\n" for message_id in ids)


for dag_id, arguments in {
    "batches_of_two": {"batch_size": 2, **RETRIES},
    "batches_with_dead_letters": {"dead_letter_dag_id": "dead_letters", **PATIENT},
}.items():
    with DAG(dag_id, schedule=None, max_active_runs=20):
        task.workflow_inbox(task_id="work", inbox=INBOX, **arguments)(process)()
