"""A trigger run by hand, and the wake-ups that a test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger


class FakeWakeUps:
    """
    Wake-ups at given waits.

    :param woken: the results of the waits, in turn; False after the last.
    """

    def __init__(self, *woken: bool) -> None:
        self.woken = list(woken)
        self.waited: list[float] = []
        self.closed = False
        self.then: Callable[[int], None] = lambda count: None

    async def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.then(len(self.waited))
        return self.woken.pop(0) if self.woken else False

    @asynccontextmanager
    async def listen(self, client: Any, inbox_id: str, streams: int) -> AsyncIterator[FakeWakeUps | None]:
        try:
            yield self if streams else None
        finally:
            self.closed = True


def trigger(**arguments: Any) -> WorkflowInboxTrigger:
    return WorkflowInboxTrigger(**{"inbox": "orders", "wake_on_events": False, **arguments})


async def fire(waiting: WorkflowInboxTrigger) -> dict[str, Any]:
    """The payload of the one event of a trigger."""
    events = [event.payload async for event in waiting.run()]
    assert len(events) == 1
    payload: dict[str, Any] = events[0]
    return payload
