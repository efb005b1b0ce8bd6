"""Notes of DAG runs, which Airflow's UI renders as Markdown: what others wrote stands in them as code."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.comms import TriggerDagRun

from airflow_provider_workflow.airflow_internals import LONGEST_NOTE
from airflow_provider_workflow.client.arguments import NAME_LENGTH
from airflow_provider_workflow.dispatch.dead_letters import Reason, conf_of
from airflow_provider_workflow.operators.dead_letters import WorkflowDeadLetterReplayOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from tests.unit.fakes import Fault
from tests.unit.rejecting import REJECTED
from tests.unit.sensors.tasks import Task
from tests.unit.workbench import Workbench

IMAGE = "![x](http://tracker.example/x.png)"
HOSTILE = [
    IMAGE,
    f"`{IMAGE}`",
    f"``` {IMAGE}",
    IMAGE + "\ue000" * 500,  # longer than a note once it is escaped
    "`" * 500 + IMAGE,
    "https://tracker.example <b> **a** [a](b)",
    "a\n\n# b\r\n| - |",
]
FIXED = re.compile(r"[A-Za-z0-9 ,:_-]*")


def is_harmless(note: str | None) -> bool:
    """Whether a note has Markdown of ours alone: code, each piece of it complete, between plain words."""
    pieces = str(note).split("`")
    return len(pieces) % 2 == 1 and len(str(note)) < LONGEST_NOTE and all(map(FIXED.fullmatch, pieces[::2]))


@pytest.fixture
def named(bench: Workbench) -> Workbench:
    """The workbench, for a task of a run with a hostile id."""
    bench.ti.run_id = IMAGE * 7  # type: ignore[attr-defined]
    return bench


def rejects_bad_payloads(order: TriggerDagRun) -> Fault | None:
    is_bad = order.dag_id == "handle" and order.conf is not None and order.conf["message"]["payload"] == "bad"
    return REJECTED if is_bad else None


@pytest.mark.parametrize("hostile", HOSTILE)
def test_an_operator_starts_runs_and_dead_letters_with_harmless_notes(named: Workbench, hostile: str) -> None:
    inbox = hostile[:NAME_LENGTH]
    named.service.open_inbox(inbox)
    named.service.put(inbox, "good", "bad", ids=[hostile, f"{hostile}?"])
    named.supervisor.dags.add("dead")
    named.supervisor.faults.append(rejects_bad_payloads)

    given: Any = {"trigger_dag_id": "handle", "dead_letter_dag_id": "dead", "dead_letter_after": 1}
    WorkflowInboxDispatchOperator(task_id="t", inbox=inbox, **given).execute({"ti": named.ti})

    notes = {order.dag_id: order.note for order in named.supervisor.asked}
    assert {dag_id: is_harmless(note) for dag_id, note in notes.items()} == {"handle": True, "dead": True}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_so_does_a_sensor_that_its_trigger_resumes(named: Workbench, hostile: str) -> None:
    task = Task(named)
    deferral = task.execute()
    named.put(hostile)
    task.resume(deferral, task.leased())

    assert [is_harmless(order.note) for order in named.supervisor.asked] == [True]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_so_does_an_operator_that_replays(named: Workbench, hostile: str) -> None:
    message: Any = {"id": hostile, "payload": 1, "message_attributes": {"lease_count": 3}}
    conf = conf_of(message, named.hook.workflow_conn_id, hostile, "handle", Reason.REJECTED, "a cause")
    operator = WorkflowDeadLetterReplayOperator(task_id="t", conf=dict(conf))
    operator.execute({"ti": named.ti, "dag_run": SimpleNamespace(conf=None)})

    assert [is_harmless(order.note) for order in named.supervisor.asked] == [True]


@pytest.mark.parametrize("message_id", ["a", "workflow__m-1", "\u65e5\u672c"])
def test_what_is_quoted_stays_readable(named: Workbench, message_id: str) -> None:
    named.ti.run_id = "manual__2026-01-01"  # type: ignore[attr-defined]
    named.put(message_id)
    WorkflowInboxDispatchOperator(task_id="t", inbox="orders", trigger_dag_id="handle").execute(
        {"ti": named.ti}
    )

    [order] = named.supervisor.asked
    started_by = "started by the run `manual__2026-01-01` of `listener`"
    assert order.note == f"Message `{message_id}` of the inbox `orders`, {started_by}"
