"""``WorkflowInboxNoticeTrigger``: makes an asset event while an inbox has messages; for an asset watcher."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.arguments import filled, flag, intervals, seconds
from airflow_provider_workflow.triggers.base import SerializesArguments, sparing_the_triggerer

if TYPE_CHECKING:
    from airflow_provider_workflow.client import types
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.client.event_stream import Bell
    from airflow_provider_workflow.triggers.retrying import Faults, InboxState
    from airflow_provider_workflow.triggers.wakeup import NoticeSchedule

log = logging.getLogger(__name__)

REST_SECONDS = 5.0
"""
How far two notices are apart at least. Airflow can strand an asset event that follows another within about
3 s; nothing depends on one event here, but a notice that starts nothing is of no use.
"""
STATE_SECONDS = 300.0
"""How often the state of the inbox is polled; listings do not show it."""


class WorkflowInboxNoticeTrigger(SerializesArguments, BaseEventTrigger):
    """
    Makes an asset event whenever an inbox has something to lease; for an ``AssetWatcher``.

    The event carries no message: a DAG that is scheduled on the asset leases them, with
    ``WorkflowInboxDispatchOperator``. That is why no message depends on one event, of which Airflow may
    lose some (those that come while the DAG is paused, or close behind another): it makes another one every
    ``renotify_seconds`` for as long as leasable messages remain, and one for a burst. It never
    leases; it listens to the inbox's event stream, and polls its listing (docs/service.md 4
    and 5), ten pages at most each time. In an inbox with more pages than that it makes a notice in doubt
    where something arrived that it has not seen yet, at most every ``renotify_seconds``.

    The event's payload is ``{"inbox", "inbox_id", "workflow_conn_id", "certain"}``; ``certain`` is False
    for a notice in doubt.

    It goes on for ever, also through permanent errors, which somebody has to fix (a wrong secret, no such
    inbox): it names them once as an ERROR, and tries again with growing pauses up to 300 s. A paused inbox
    is watched on, as it may hold messages.

    It holds arguments only; the connection is looked up when it runs, and no secret is serialised.
    Watchers with the same arguments in one DAG file are one trigger; those of one inbox in one triggerer
    share its event stream.

    :param inbox: id or name.
    :param workflow_conn_id: id of the Airflow connection.
    :param renotify_seconds: seconds between two notices for the same messages, 5 or more.
    :param poll_interval: seconds between two polls, above 0; doubles while nothing is new.
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

    def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch for ever. It raises nothing: Airflow would begin anew every 2 s, without any back-off."""
        from airflow_provider_workflow.triggers.retrying import InboxState, persistently
        from airflow_provider_workflow.triggers.wakeup import NoticeSchedule

        schedule = NoticeSchedule(self.renotify_seconds, self.poll_interval, self.max_poll_interval)
        state = InboxState(self.inbox, "announced", log)
        return persistently(partial(self._watch, schedule, state), inbox=self.inbox, log=log)

    async def _watch(
        self, schedule: NoticeSchedule, state: InboxState, faults: Faults
    ) -> AsyncGenerator[TriggerEvent, None]:
        """Watch the inbox until something goes wrong."""
        from airflow_provider_workflow.hooks.workflow import WorkflowHook
        from airflow_provider_workflow.triggers.retrying import answered_in_time
        from airflow_provider_workflow.triggers.wakeup import LEAST_PAUSE_SECONDS, Prober, bell_of, log_wait

        # Nobody has listened until now.
        schedule.may_have_arrived()
        # The connection is looked up anew each time: it may have been fixed.
        async with WorkflowHook(self.workflow_conn_id).async_client() as client:
            first = not state.is_known
            inbox_id = await self._poll_state(client, state)
            if first:
                log_wait(log, client, self)
            async with bell_of(client, inbox_id, self.wake_on_events) as bell:
                state_due = clock.monotonic() + STATE_SECONDS
                prober = Prober(client, inbox_id, self._report)
                while True:
                    listed = await answered_in_time(prober.poll())
                    faults.over()
                    is_due = schedule.is_due(listed, clock.monotonic())
                    if is_due:
                        yield self._event(inbox_id, certain=bool(listed.available))
                    await _wait(bell, schedule, REST_SECONDS if is_due else LEAST_PAUSE_SECONDS)
                    if clock.monotonic() >= state_due:
                        state_due = clock.monotonic() + STATE_SECONDS
                        await self._poll_state(client, state)

    async def _poll_state(self, client: AsyncWorkflowClient, state: InboxState) -> str:
        """The id of the inbox; any change of its state is logged (docs/service.md 2.2)."""
        from airflow_provider_workflow.triggers.retrying import answered_in_time
        from airflow_provider_workflow.triggers.wakeup import look_up

        inbox = await answered_in_time(look_up(client, self.inbox))
        state.seen(str(inbox["status"]), inbox.get("paused_reason"))
        return inbox["id"]

    def _report(self, messages: list[types.Message]) -> None:
        from airflow_provider_workflow.dispatch import quarantine

        quarantine.report(messages, inbox=self.inbox, conn_id=self.workflow_conn_id)

    def _event(self, inbox_id: str, *, certain: bool) -> TriggerEvent:
        from airflow_provider_workflow import metrics
        from airflow_provider_workflow.client.wire import plain

        metrics.count(metrics.RUNG, 1, inbox=inbox_id, conn_id=self.workflow_conn_id)
        # A string that Airflow cannot encode would end the whole triggerer.
        names = {"inbox": self.inbox, "inbox_id": inbox_id, "workflow_conn_id": self.workflow_conn_id}
        payload: dict[str, Any] = {name: plain(value) for name, value in names.items()}
        return TriggerEvent({**payload, "certain": certain})


async def _wait(bell: Bell | None, schedule: NoticeSchedule, at_least: float) -> None:
    """Wait until the next poll is due, and ``at_least`` seconds in any case."""
    from airflow_provider_workflow.triggers.wakeup import wait_for

    seconds = max(at_least, schedule.next_poll(clock.monotonic()))
    if bell is not None:
        await clock.async_sleep(at_least)
        seconds -= at_least
    if await wait_for(bell, seconds):
        schedule.may_have_arrived()
