"""What logs and errors call an inbox that a DAG file names by its id: by its name, once that is known."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import DAG, task

from airflow_provider_workflow.decorators.workflow_inbox import MessagesFailed
from airflow_provider_workflow.operators.dead_letters import WorkflowDeadLetterReplayOperator
from airflow_provider_workflow.operators.inbox import (
    WorkflowAcknowledgeOperator,
    WorkflowInboxDispatchOperator,
)
from airflow_provider_workflow.operators.manage_inbox import (
    WorkflowPauseInboxOperator,
    WorkflowResumeInboxOperator,
)
from tests.unit.client.isolation import forget
from tests.unit.fakes import api_error
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import Workbench


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "airflow_provider_workflow")
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.name.startswith("airflow_provider")]


def dispatch(bench: Workbench, **arguments: Any) -> None:
    all_arguments = {"inbox": bench.inbox_id, "trigger_dag_id": "handle", **arguments}
    WorkflowInboxDispatchOperator(task_id="t", **all_arguments).execute({"ti": bench.ti})  # type: ignore[arg-type]


def batches(bench: Workbench) -> None:
    @task.workflow_inbox(inbox=bench.inbox_id)
    def work(messages: Any) -> None:
        bad = [message["id"] for message in messages if message["id"] == "bad"]
        if bad:
            raise MessagesFailed(bad)

    with DAG("d", schedule=None):
        work().operator.execute(bench.context)


def receive(bench: Workbench) -> Any:
    return Task(
        bench, trigger_dag_id=None, acknowledge="manual", inbox=bench.inbox_id, deferrable=False
    ).execute()


def pause(bench: Workbench) -> None:
    WorkflowPauseInboxOperator(task_id="t", inbox=bench.inbox_id).execute({})
    WorkflowResumeInboxOperator(task_id="t", inbox=bench.inbox_id).execute({})


DOORS: dict[str, tuple[Callable[[Workbench], None], list[str]]] = {
    "dispatch": (dispatch, ["message bad was rejected", "dispatched to handle: 1 started", "no more"]),
    "dead letter": (
        lambda bench: dispatch(bench, dead_letter_dag_id="dead", dead_letter_after=1),
        ["message bad is a dead letter", "1 started, 0 existing, 0 rejected, 1 dead-lettered"],
    ),
    "unmatched": (lambda bench: dispatch(bench, match="payload.vip"), ["no route takes message"]),
    "batches": (batches, ["message bad failed on its delivery number 1", "processed 1 message in 2 batches"]),
    "receive": (receive, ["received 2 messages, leased until"]),
    "pause": (pause, ["is paused now"]),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_listener_that_has_the_id_names_the_inbox(
    bench: Workbench, log: pytest.LogCaptureFixture, door: str
) -> None:
    run, parts = DOORS[door]
    bench.supervisor.dags.add("dead")
    bench.supervisor.refuse("bad", api_error(422))
    bench.put("a", "bad")

    error = ""
    try:
        run(bench)
    except AirflowException as raised:
        error = str(raised)

    assert [line for line in (*lines(log), error) if bench.inbox_id in line] == []
    for part in parts:
        assert any(line.startswith("Inbox orders") and part in line for line in lines(log)), part
    notes = [note for note in bench.supervisor.notes.values() if note]
    assert all("the inbox `orders`" in note for note in notes)


def test_a_task_after_the_sensor_names_the_inbox(bench: Workbench, log: pytest.LogCaptureFixture) -> None:
    bench.put("a")
    lease = json.loads(json.dumps(receive(bench)))
    forget()  # another process

    WorkflowAcknowledgeOperator(task_id="t", lease=lease).execute({})

    assert lines(log)[-1] == "Inbox orders: acknowledged 1 of 1 message"


def test_a_replay_names_the_inbox(bench: Workbench, log: pytest.LogCaptureFixture) -> None:
    bench.supervisor.dags.add("dead")
    bench.supervisor.refuse("bad", api_error(422))
    bench.put("a", "bad")
    dispatch(bench, dead_letter_dag_id="dead", dead_letter_after=1)
    letter = json.loads(json.dumps(bench.dead_letters["bad"]))
    forget()  # another process
    bench.supervisor.faults.clear()

    WorkflowDeadLetterReplayOperator(task_id="t", conf=letter).execute({"ti": bench.ti})  # type: ignore[arg-type]

    assert lines(log)[-1].startswith("Message bad of the inbox orders was replayed: ")
    assert "of the inbox `orders`, replayed by" in bench.supervisor.notes["handle", bench.run_id("bad")]


def test_a_replay_of_an_earlier_dead_letter_names_the_id(
    bench: Workbench, log: pytest.LogCaptureFixture
) -> None:
    bench.supervisor.dags.add("dead")
    bench.supervisor.refuse("bad", api_error(422))
    bench.put("a", "bad")
    dispatch(bench, dead_letter_dag_id="dead", dead_letter_after=1)
    letter = {name: value for name, value in bench.dead_letters["bad"].items() if name != "inbox_name"}
    forget()
    bench.supervisor.faults.clear()

    WorkflowDeadLetterReplayOperator(task_id="t", conf=letter).execute({"ti": bench.ti})  # type: ignore[arg-type]

    assert lines(log)[-1].startswith(f"Message bad of the inbox {bench.inbox_id} was replayed: ")
