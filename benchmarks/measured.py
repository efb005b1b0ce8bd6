"""Operators that say what they took; for the DAGs of benchmarks."""

from __future__ import annotations

import os
import time
from typing import Any

from airflow_provider_workflow.decorators.workflow_inbox import WorkflowInboxDecoratedOperator
from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from benchmarks.process import MEGABYTE, resident


class MeasuredDispatchOperator(WorkflowInboxDispatchOperator):
    """
    Returns how many runs it started, when it began and ended (seconds since 1970), the CPU that it used
    (seconds), and the memory that it grew by (MB).
    """

    def execute(self, context: Any) -> dict[str, Any]:
        held, began_at, used = resident(os.getpid()), time.time(), time.process_time()
        done = super().execute(context)
        return {
            "count": done["started"]["count"],
            "began_at": began_at,
            "ended_at": time.time(),
            "used": time.process_time() - used,
            "grown": (resident(os.getpid()) - held) / MEGABYTE,
        }


class MeasuredBatchOperator(WorkflowInboxDecoratedOperator):
    """Returns how many messages it processed, and when it began and ended (seconds since 1970)."""

    def execute(self, context: Any) -> Any:
        began_at = time.time()
        done = super().execute(context)
        return {"count": done["processed"]["count"], "began_at": began_at, "ended_at": time.time()}
