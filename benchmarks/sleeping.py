"""A watcher that does nothing but wait: what Airflow itself takes for each."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_workflow.client import api
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.triggers.polling import look_up
from benchmarks.polling import POLL_SECONDS


class SleepingTrigger(BaseEventTrigger):
    """
    Looks into its inbox once, which says that it has begun; then it wakes as often as one that polls.

    :param inbox: name of it.
    """

    def __init__(self, inbox: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inbox = inbox

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.{type(self).__name__}", {"inbox": self.inbox}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        async with WorkflowHook().async_client() as client:
            inbox = await look_up(client, self.inbox)
            found = await client.send(api.list_messages(inbox["id"]))
        if found["results"]:
            yield TriggerEvent(self.inbox)
        for _ in itertools.count():
            await asyncio.sleep(POLL_SECONDS)
