"""
The shape that loses messages, only there to be compared with: acknowledge, then hand over.

A trigger that acknowledges before Airflow has stored its event, as released queue providers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_workflow.client import api
from airflow_provider_workflow.client.errors import WorkflowError
from airflow_provider_workflow.dispatch import runs
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.triggers.polling import look_up

# Airflow fails a task whose trigger fires sooner; that would be a loss of another kind.
SETTLE_SECONDS = 6.0


class AckFirstTrigger(BaseTrigger):
    """Leases, acknowledges, fires."""

    def __init__(self, inbox: str) -> None:
        super().__init__()
        self.inbox = inbox

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {"inbox": self.inbox}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(SETTLE_SECONDS)
        async with WorkflowHook().async_client() as client:
            while True:
                messages = []
                try:
                    inbox_id = (await look_up(client, self.inbox))["id"]
                    lease = await client.send(api.lease_messages(inbox_id, 100, 60))
                    if lease["lease_id"]:
                        await client.send(api.acknowledge_messages(inbox_id, lease["lease_id"]))
                        messages = lease["results"]
                except WorkflowError as error:
                    self.log.warning("Trying on: %s", error)
                if messages:
                    yield TriggerEvent([{**message, "inbox_id": inbox_id} for message in messages])
                    return
                await asyncio.sleep(1)


class AckFirstListener(BaseOperator):
    """Starts one run for each message that its trigger hands over, and never anything twice."""

    def __init__(self, inbox: str, trigger_dag_id: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.inbox = inbox
        self.trigger_dag_id = trigger_dag_id

    def execute(self, context: Any) -> None:
        self.defer(trigger=AckFirstTrigger(self.inbox), method_name="start_runs")

    def start_runs(self, context: Any, event: list[dict[str, Any]]) -> None:
        starting = runs.TaskRuns(context["ti"])
        for message in event:
            starting.start(
                self.trigger_dag_id, runs.run_id_of(message["id"], message["inbox_id"]), {"message": message}
            )
