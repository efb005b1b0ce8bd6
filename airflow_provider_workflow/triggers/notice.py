"""``WorkflowInboxNoticeTrigger``: the doorbell of an inbox, for an asset watcher."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_workflow import metrics, quarantine
from airflow_provider_workflow.client import types
from airflow_provider_workflow.client.arguments import filled, flag, intervals, seconds
from airflow_provider_workflow.client.errors import TransportError
from airflow_provider_workflow.triggers.arguments import SerializesArguments
from airflow_provider_workflow.triggers.doorbell import BREATH_SECONDS, REST_SECONDS, Doorbell
from airflow_provider_workflow.triggers.listening import bell_of, look_up, wait_for
from airflow_provider_workflow.triggers.patience import Faults, persistently
from airflow_provider_workflow.triggers.probing import Prober
from airflow_provider_workflow.triggers.sparing import sparing_the_triggerer
from airflow_provider_workflow.triggers.watching import LONGEST_ANSWER_SECONDS, InboxState
from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.client.events import Bell

log = logging.getLogger(__name__)

T = TypeVar("T")

STATE_SECONDS = 300.0
"""How often the state of the inbox is asked for; listings do not show it."""


class WorkflowInboxNoticeTrigger(SerializesArguments, BaseEventTrigger):
    """
    Makes an asset event whenever an inbox has something to lease; for an ``AssetWatcher``.

    The event carries no message: a DAG that is scheduled on the asset leases them, with
    ``WorkflowInboxDispatchOperator``. That is why no message depends on one event, of which Airflow may
    lose some (those that come while the DAG is paused, or close behind another): it rings again every
    ``renotify_seconds`` for as long as leasable messages remain, and rings once for a burst. It never
    leases; it listens to the inbox's event stream, and looks at its listing (specification 4.5, service
    facts 4, 5), ten pages at most each time. In an inbox with more pages than that it rings in doubt
    where something arrived that it has not seen yet, at most every ``renotify_seconds``.

    The event's payload is ``{"inbox", "inbox_id", "workflow_conn_id", "certain"}``; ``certain`` is False
    for a ring in doubt.

    It goes on for ever, also through faults that somebody has to mend (a wrong secret, no such inbox):
    it names them once as an ERROR, and tries again with growing pauses up to 300 s. A paused inbox is
    watched on, as it may hold messages.

    It holds arguments only; the connection is looked up when it runs, and no secret is serialised.
    Watchers with the same arguments in one DAG file are one trigger; those of one inbox in one triggerer
    share its event stream.

    :param inbox: id or name.
    :param workflow_conn_id: id of the Airflow connection.
    :param renotify_seconds: seconds between two rings for the same messages, 5 or more.
    :param poll_interval: seconds between two looks, above 0; doubles while there is no news.
    :param max_poll_interval: seconds that it doubles up to.
    :param wake_on_events: also listen to the inbox's event stream.
    :raises ValueError: names the argument that is out of range.
    """

    ARGUMENTS = (
        "inbox",
        "workflow_conn_id",
        "renotify_seconds",
        "poll_interval",
        "max_poll_interval",
        "wake_on_events",
    )

    def __init__(
        self,
        inbox: str,
        workflow_conn_id: str = "workflow_default",
        renotify_seconds: float = 60,
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        wake_on_events: bool = True,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        with sparing_the_triggerer():
            self.inbox = filled("inbox", inbox)
            self.workflow_conn_id = filled("workflow_conn_id", workflow_conn_id)
            self.renotify_seconds = seconds("renotify_seconds", renotify_seconds, REST_SECONDS)
            self.poll_interval, self.max_poll_interval = intervals(poll_interval, max_poll_interval)
            self.wake_on_events = flag("wake_on_events", wake_on_events)
        self._state = InboxState(self.inbox, "announced", log)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Ring for ever. It raises nothing: Airflow would begin anew every 2 s, without any back-off."""
        doorbell = Doorbell(self.renotify_seconds, self.poll_interval, self.max_poll_interval)
        watch = persistently(partial(self._watch, doorbell), inbox=self.inbox, log=log, wait=asyncio.sleep)
        async with aclosing(watch) as events:
            async for event in events:
                yield event

    async def _watch(self, doorbell: Doorbell, faults: Faults) -> AsyncGenerator[TriggerEvent, None]:
        """Watch the inbox until something goes wrong."""
        from airflow_provider_workflow.hooks.workflow import WorkflowHook

        # Nobody has listened until now.
        doorbell.heard()
        # The connection is looked up anew each time: it may have been mended.
        async with WorkflowHook(self.workflow_conn_id).async_client() as client:
            inbox_id = (await self._inbox(client))["id"]
            async with bell_of(client, inbox_id, self.wake_on_events) as bell:
                state_due = time.monotonic() + STATE_SECONDS
                show = partial(quarantine.report, inbox=self.inbox, conn_id=self.workflow_conn_id)
                prober = Prober(client, inbox_id, show)
                while True:
                    sight = await _in_time(prober.look())
                    faults.over()
                    rings = doorbell.rings(sight, time.monotonic())
                    if rings:
                        yield self._event(inbox_id, certain=bool(sight.available))
                    await _wait(bell, doorbell, REST_SECONDS if rings else BREATH_SECONDS)
                    if time.monotonic() >= state_due:
                        state_due = time.monotonic() + STATE_SECONDS
                        await self._inbox(client)

    async def _inbox(self, client: AsyncWorkflowClient) -> types.Inbox:
        """The inbox, any change of its state logged (specification 3.1)."""
        inbox = await _in_time(look_up(client, self.inbox))
        self._state.seen(str(inbox["status"]), inbox.get("paused_reason"))
        return inbox

    def _event(self, inbox_id: str, *, certain: bool) -> TriggerEvent:
        metrics.count(metrics.RUNG, 1, inbox=inbox_id, conn_id=self.workflow_conn_id)
        # A text that Airflow cannot encode would end the whole triggerer.
        names = {"inbox": self.inbox, "inbox_id": inbox_id, "workflow_conn_id": self.workflow_conn_id}
        payload: dict[str, Any] = {name: plain(value) for name, value in names.items()}
        return TriggerEvent({**payload, "certain": certain})


async def _wait(bell: Bell | None, doorbell: Doorbell, at_least: float) -> None:
    """Wait until it is time for the next look, and longer than ``at_least`` seconds in any case."""
    until_due = doorbell.next_look(time.monotonic())
    await asyncio.sleep(at_least)
    if await wait_for(bell, max(0.0, until_due - at_least)):
        doorbell.heard()


async def _in_time(answer: Awaitable[T]) -> T:
    try:
        return await asyncio.wait_for(answer, LONGEST_ANSWER_SECONDS)
    except asyncio.TimeoutError:
        raise TransportError(
            f"the service gave no answer within {LONGEST_ANSWER_SECONDS:.0f} s; it may want fewer calls",
            sent=True,
        ) from None
