"""Our notice recipe with timestamps, and the floor of its shape, for the DAGs of the benchmark of latency."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_workflow.operators.inbox import WorkflowInboxDispatchOperator
from airflow_provider_workflow.triggers.notice import WorkflowInboxNoticeTrigger

AT = "at"
"""In the payload of an event: when the trigger emitted it, in seconds since 1970."""
BEGAN, LOADED = "began_at", "loaded_at"
"""In the result of a task: when its operator began, and when it had imported what it imports anyway."""
MODULES = (
    *(f"dispatch.{name}" for name in ("dead_letters", "dispatcher", "routing", "runs", "targets")),
    *("hooks.workflow", "client.client", "client.over_requests"),
)
"""What our operator imports when it runs, and not when its DAG file is parsed."""


class TimedNoticeTrigger(WorkflowInboxNoticeTrigger):
    """Ours, whose events have the time."""

    def _event(self, inbox_id: str) -> TriggerEvent:
        event = super()._event(inbox_id)
        return TriggerEvent({**event.payload, AT: time.time()})


class PipeTrigger(BaseEventTrigger):
    """
    Emits an event each time that something is written to a named pipe: the least that a watcher can do.

    :param path: of the pipe, which exists.
    """

    def __init__(self, path: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.path = path

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", {"path": self.path}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, emit, and wait again."""
        loop, written = asyncio.get_running_loop(), asyncio.Event()
        pipe = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

        def read() -> None:
            os.read(pipe, 4096)  # or this is called again
            written.set()

        loop.add_reader(pipe, read)
        try:
            while True:
                await written.wait()
                written.clear()
                yield TriggerEvent({AT: time.time()})
        finally:
            loop.remove_reader(pipe)
            os.close(pipe)


class TimedDispatchOperator(WorkflowInboxDispatchOperator):
    """Ours, which imports its modules first, and returns when it did that."""

    def execute(self, context: Any) -> Any:
        began_at = time.time()
        for name in MODULES:
            import_module(f"airflow_provider_workflow.{name}")
        loaded_at = time.time()
        super().execute(context)
        return {BEGAN: began_at, LOADED: loaded_at}


class OneCallOperator(BaseOperator):
    """
    Starts a run with one supervisor call: the least that a task can do.

    :param trigger_dag_id: the DAG of the run.
    """

    def __init__(self, *, trigger_dag_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.trigger_dag_id = trigger_dag_id

    def execute(self, context: Any) -> dict[str, float]:
        began_at = time.time()
        from airflow.sdk.execution_time import task_runner
        from airflow.sdk.execution_time.comms import TriggerDagRun

        conf = {"inbox_id": "x" * 36, "message": {"id": "x" * 36, "payload": {"number": 1}}}
        run_id = f"floor__{context['run_id']}"
        call = TriggerDagRun(dag_id=self.trigger_dag_id, run_id=run_id, conf=conf)
        task_runner.SUPERVISOR_COMMS.send(call)
        return {BEGAN: began_at}
