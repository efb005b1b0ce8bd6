"""A message that kills the process of its task, at any position: no other message is lost with it."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import DAG, task

from airflow_provider_workflow.emulator.clock import ManualClock
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from tests.unit.workbench import INBOX, Workbench

pytestmark = pytest.mark.slow

IDS = [f"m{number:02}" for number in range(40)]


class Killed(BaseException):
    """The process is gone: from now on none of its calls has an effect."""


def calls_of_a_try(bench: Workbench, killer: str, dead_letter_dag_id: str | None) -> list[list[str]]:
    """Let a try of the task work in a process that one message kills; the calls of the function."""
    calls: list[list[str]] = []

    with pytest.MonkeyPatch.context() as process:

        def no_longer(*_: Any) -> None:
            raise Killed

        @task.workflow_inbox(inbox=INBOX, dead_letter_dag_id=dead_letter_dag_id)
        def work(messages: Any) -> None:
            calls.append([message["id"] for message in messages])
            if killer in calls[-1]:
                process.setattr(WorkflowHook, "hurried", no_longer)
                raise Killed

        with DAG("batches", schedule=None, start_date=datetime(2025, 1, 1)):
            operator = work().operator
        with contextlib.suppress(Killed, AirflowException):
            operator.execute(bench.context)
    return calls


@pytest.mark.parametrize("position", [0, 1, 20, 39])
@pytest.mark.parametrize("dead_letter_dag_id", [None, "dead"])
def test_a_message_that_kills_its_process_takes_no_other_with_it(
    bench: Workbench, clock: ManualClock, position: int, dead_letter_dag_id: str | None
) -> None:
    bench.supervisor.dags.add("dead")
    bench.put(*IDS)
    killer, called = IDS[position], set()
    for _ in range(6):
        for attempt in (1, 2, 3):
            bench.ti.try_number = attempt
            for ids in calls_of_a_try(bench, killer, dead_letter_dag_id):
                called.update(ids)
        clock.advance(3600)

    assert called == set(IDS)
    assert bench.states == ({} if dead_letter_dag_id else {killer: "quarantined"})
    assert set(bench.dead_letters) == ({killer} if dead_letter_dag_id else set())
