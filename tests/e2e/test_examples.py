"""Every example DAG is run by a real Airflow, and does what its table (``examples.py``) says."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.examples import EXAMPLES, Seen
from tests.e2e.stage import PATIENCE_SECONDS, Inbox, Stage
from tools.airflow_api import AirflowAPIError

LATEST = 20
"""Of a DAG whose runs are not named after messages, so many runs are looked at."""


@pytest.mark.last  # other tests count what becomes of all messages in the inboxes of examples
@pytest.mark.parametrize("file", EXAMPLES)
def test_an_example_does_what_it_is_for(stage, file):
    example = EXAMPLES[file]
    if not example.runs_here:
        pytest.skip(f"needs Airflow {example.since[0]}.{example.since[1]}")
    stage.airflow.wait_for_dags({seen.dag_id for seen in example.see}.union(example.start))
    inbox = Inbox.open(stage.emulator, example.inbox) if example.inbox else None
    ids = inbox.put(*example.put) if inbox else []
    run_ids = {inbox.run_id_of(each) for each in ids} if inbox else set()
    for dag_id in example.start:
        run_id = stage.airflow.api.trigger_dag(dag_id)
        stage.airflow.api.wait_for_run(dag_id, run_id, PATIENCE_SECONDS)
    for seen in example.see:
        text = seen.text.format(id=ids, payload=example.put)
        stage.until(lambda seen=seen, text=text: shows(stage, seen, text, run_ids), f"{seen.task_id}: {text}")
    if inbox:
        stage.until(lambda: states(inbox, ids) == {"acked"}, f"the messages of {inbox.name} to be gone")


def shows(stage: Stage, seen: Seen, text: str, run_ids: set[str]) -> bool:
    return any(text in said for said in sayings(stage, seen, run_ids))


def sayings(stage: Stage, seen: Seen, run_ids: set[str]) -> Iterator[str]:
    """What a task printed, and what it returned, in each run that may be the one."""
    api, task_id = stage.airflow.api, seen.task_id
    runs = [run["dag_run_id"] for run in api.dag_runs(seen.dag_id) if run["state"] == "success"]
    named = run_ids.intersection(runs)
    for run_id in named or runs[-LATEST:]:
        (task,) = (each for each in api.task_instances(seen.dag_id, run_id) if each["task_id"] == task_id)
        yield api.task_log(seen.dag_id, run_id, task_id, task["try_number"])
        try:
            yield json.dumps(api.xcom(seen.dag_id, run_id, task_id))
        except AirflowAPIError as error:
            if error.status != 404:
                raise


def states(inbox: Inbox, ids: list[str]) -> set[str]:
    messages = inbox.messages
    return {messages[message_id]["status"] for message_id in ids}
