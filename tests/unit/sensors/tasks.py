"""A sensor as a task: its tries, its deferrals, and what a trigger brings it."""

from __future__ import annotations

import json
from typing import Any

from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_workflow.sensors.inbox import WorkflowInboxSensor
from tests.unit.fakes import StateStore
from tests.unit.workbench import INBOX, Workbench


def sensor(**arguments: Any) -> WorkflowInboxSensor:
    """A deferrable sensor of the inbox that starts runs of ``handle``, unless told otherwise."""
    all_arguments = {
        "inbox": INBOX,
        "trigger_dag_id": "handle",
        "deferrable": True,
        "retries": 1,
        **arguments,
    }
    return WorkflowInboxSensor(task_id="wait", **all_arguments)


class Task:
    """
    :param arguments: of :func:`sensor`.
    """

    def __init__(self, bench: Workbench, **arguments: Any) -> None:
        self.bench = bench
        self.arguments = arguments
        self.sensor = sensor(**arguments)
        self.store = StateStore()
        self.context: Any = {"ti": bench.ti, "task_state_store": self.store}

    def execute(self) -> Any:
        """A try of the task; its value, or the deferral that it ends with."""
        return self.run(lambda: self.sensor.execute(self.context))

    def resume(self, deferral: TaskDeferred, event: dict[str, Any]) -> Any:
        """Go on as Airflow does, with what crossed its database."""
        # Another process, which knows nothing of the one before.
        self.sensor = sensor(**self.arguments)
        brought = json.loads(json.dumps({**(deferral.kwargs or {}), "event": event}))
        return self.run(
            lambda: self.sensor.resume_execution(str(deferral.method_name), brought, self.context)
        )

    def leased(self, seconds: int = 300) -> dict[str, Any]:
        lease = self.bench.lease(seconds=seconds).hand_off()
        return {"status": "leased", "inbox_name": INBOX, "lease": lease}

    @staticmethod
    def run(step: Any) -> Any:
        try:
            return step()
        except TaskDeferred as deferral:
            return deferral


POLL = {"status": "poll"}

MODES: dict[str, dict[str, Any]] = {
    "poke": {"deferrable": False},
    "reschedule": {"deferrable": False, "mode": "reschedule"},
    "deferrable": {"deferrable": True},
}


def message_ids(value: Any) -> list[str]:
    """The ids of the messages that a sensor's value tells of."""
    if "messages" in value:
        return [message["id"] for message in value["messages"]]
    ids: list[str] = value["started"]["ids"]
    return ids
