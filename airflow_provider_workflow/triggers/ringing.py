"""How a ``WorkflowInboxNoticeTrigger`` watches its inbox, and rings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.base import TriggerEvent

from airflow_provider_workflow import clock, metrics
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.triggers.notice import REST_SECONDS, WorkflowInboxNoticeTrigger
from airflow_provider_workflow.triggers.probing import Prober
from airflow_provider_workflow.triggers.retrying import Faults, persistently
from airflow_provider_workflow.triggers.wakeup import (
    BREATH_SECONDS,
    Doorbell,
    bell_of,
    log_wait,
    look_up,
    wait_for,
)
from airflow_provider_workflow.triggers.watching import LONGEST_ANSWER_SECONDS, InboxState
from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.client.event_stream import Bell

log = logging.getLogger(__name__)

T = TypeVar("T")

STATE_SECONDS = 300.0
"""How often the state of the inbox is asked for; listings do not show it."""


class Ringer:
    """
    :param asked: which inbox to watch, and how.
    """

    def __init__(self, asked: WorkflowInboxNoticeTrigger) -> None:
        self._asked = asked
        self._state = InboxState(asked.inbox, "announced", log)
        self._has_begun = False
        self._doorbell = Doorbell(asked.renotify_seconds, asked.poll_interval, asked.max_poll_interval)

    def events(self) -> AsyncIterator[TriggerEvent]:
        """Ring for ever, and raise nothing."""
        return persistently(self._watch, inbox=self._asked.inbox, log=log)

    async def _watch(self, faults: Faults) -> AsyncGenerator[TriggerEvent, None]:
        """Watch the inbox until something goes wrong."""
        # Nobody has listened until now.
        self._doorbell.heard()
        # The connection is looked up anew each time: it may have been mended.
        async with WorkflowHook(self._asked.workflow_conn_id).async_client() as client:
            inbox_id = (await self._inbox(client))["id"]
            async with bell_of(client, inbox_id, self._asked.wake_on_events) as bell:
                if not self._has_begun:
                    log_wait(log, client, self._asked)
                    self._has_begun = True
                state_due = clock.monotonic() + STATE_SECONDS
                prober = Prober(client, inbox_id, self._report)
                while True:
                    sight = await _in_time(prober.look())
                    faults.over()
                    rings = self._doorbell.rings(sight, clock.monotonic())
                    if rings:
                        yield self._event(inbox_id, certain=bool(sight.available))
                    await self._wait(bell, REST_SECONDS if rings else BREATH_SECONDS)
                    if clock.monotonic() >= state_due:
                        state_due = clock.monotonic() + STATE_SECONDS
                        await self._inbox(client)

    def _report(self, messages: list[types.Message]) -> None:
        quarantine.report(messages, inbox=self._asked.inbox, conn_id=self._asked.workflow_conn_id)

    async def _inbox(self, client: AsyncWorkflowClient) -> types.Inbox:
        """The inbox, any change of its state logged (docs/service.md 2.2)."""
        inbox = await _in_time(look_up(client, self._asked.inbox))
        self._state.seen(str(inbox["status"]), inbox.get("paused_reason"))
        return inbox

    def _event(self, inbox_id: str, *, certain: bool) -> TriggerEvent:
        inbox, conn_id = self._asked.inbox, self._asked.workflow_conn_id
        metrics.count(metrics.RUNG, 1, inbox=inbox_id, conn_id=conn_id)
        # A text that Airflow cannot encode would end the whole triggerer.
        names = {"inbox": inbox, "inbox_id": inbox_id, "workflow_conn_id": conn_id}
        payload: dict[str, Any] = {name: plain(value) for name, value in names.items()}
        return TriggerEvent({**payload, "certain": certain})

    async def _wait(self, bell: Bell | None, at_least: float) -> None:
        """Wait until it is time for the next look, and ``at_least`` seconds in any case."""
        seconds = max(at_least, self._doorbell.next_look(clock.monotonic()))
        if bell is not None:
            await clock.async_sleep(at_least)
            seconds -= at_least
        if await wait_for(bell, seconds):
            self._doorbell.heard()


async def _in_time(answer: Awaitable[T]) -> T:
    try:
        async with clock.timeout(LONGEST_ANSWER_SECONDS):
            return await answer
    except asyncio.TimeoutError:
        raise TransportError(
            f"the service gave no answer within {LONGEST_ANSWER_SECONDS:.0f} s; it may want fewer calls",
            sent=True,
        ) from None
