"""A task that processes messages in batches, and writes into a file what its function was given."""

import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

INBOX = "{{ dag_run.conf['inbox'] }}"


def process(messages, dag_run=None):
    """
    Write the ids of the messages into the file that the run's conf names.

    While the file "<name>.hold" exists it does not return.
    """
    ids, name = [message["id"] for message in messages], dag_run.conf["file"]
    written, held = Path(name), Path(f"{name}.hold")
    with written.open("a") as file:
        file.writelines(f"given {each}\n" for each in ids)
    while held.exists():
        time.sleep(0.05)
    with written.open("a") as file:
        file.writelines(f"done {each}\n" for each in ids)


with DAG("batches_of_two", schedule=None, max_active_runs=20):
    task.workflow_inbox(
        task_id="work", inbox=INBOX, batch_size=2, retries=5, retry_delay=timedelta(seconds=2)
    )(process)()
