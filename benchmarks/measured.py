"""Operators that tell what they took; for the DAGs of benchmarks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from airflow.sdk import BaseOperator

from airflow_provider_workflow.decorators.workflow_inbox import WorkflowInboxDecoratedOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from benchmarks.meter import peak, resident

STORE_VARIABLE = "WORKFLOW_BENCH_STORE"
"""Environment variable of tasks: the path of the payload store."""


def measured(work: Callable[[], int]) -> dict[str, Any]:
    """
    Work; how many runs that started or messages it processed, when it began and ended (seconds since 1970),
    the CPU that it used (seconds), and the memory that the process grew by at most (MB).
    """
    before, began_at, used = resident(), time.time(), time.process_time()
    count = work()
    return {
        "count": count,
        "began_at": began_at,
        "ended_at": time.time(),
        "used": time.process_time() - used,
        "grown": peak() - before,
    }


class MeasuredDispatchOperator(WorkflowInboxDispatchOperator):
    """Ours, with a run for each message."""

    def execute(self, context: Any) -> dict[str, Any]:
        dispatch = super().execute
        return measured(lambda: dispatch(context)["started"]["count"])


class MeasuredStoringOperator(MeasuredDispatchOperator):
    """Ours, with every payload in the store that ``WORKFLOW_BENCH_STORE`` names."""

    def execute(self, context: Any) -> dict[str, Any]:
        prefix = "AIRFLOW__WORKFLOW__PAYLOAD_OBJECTSTORAGE"
        os.environ |= {f"{prefix}_PATH": os.environ[STORE_VARIABLE], f"{prefix}_THRESHOLD": "0"}
        return super().execute(context)


class MeasuredBatchOperator(WorkflowInboxDecoratedOperator):
    """Ours, that processes messages in batches."""

    def execute(self, context: Any) -> Any:
        process = super().execute
        return measured(lambda: process(context)["processed"]["count"])


class BareOperator(BaseOperator):
    """
    Starts runs by the supervisor call alone, as many as its conf says: the floor.

    :param trigger_dag_id: the DAG of the runs.
    """

    def __init__(self, *, trigger_dag_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.trigger_dag_id = trigger_dag_id

    def execute(self, context: Any) -> dict[str, Any]:
        from airflow.sdk.execution_time import task_runner
        from airflow.sdk.execution_time.comms import TriggerDagRun

        count = int((context["dag_run"].conf or {}).get("count", 1))

        def work() -> int:
            for number in range(count):
                conf = {"inbox_id": "x" * 36, "message": {"id": "x" * 36, "payload": {"number": number}}}
                run_id = f"bare__{context['run_id']}_{number}"
                call = TriggerDagRun(dag_id=self.trigger_dag_id, run_id=run_id, conf=conf)
                task_runner.SUPERVISOR_COMMS.send(call)
            return count

        return measured(work)
