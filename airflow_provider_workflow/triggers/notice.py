"""``WorkflowInboxNoticeTrigger``: emits asset events while an inbox has messages; for an asset watcher."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_workflow import clock
from airflow_provider_workflow.client.arguments import filled, flag, intervals, seconds
from airflow_provider_workflow.triggers.base import (
    SerializesArguments,
    queue_of_triggerers,
    type_errors_in_triggerer,
)

if TYPE_CHECKING:
    from airflow_provider_workflow.client import types
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.client.event_stream import WakeUps
    from airflow_provider_workflow.triggers.retrying import Faults, InboxState
    from airflow_provider_workflow.triggers.wakeup import NoticeSchedule

log = logging.getLogger(__name__)

LEAST_NOTICE_SECONDS = 5.0
"""
Minimum seconds between two notices. Airflow may not start a run for an asset event that follows another one
within about 3 s. No message depends on one event, but such a notice would be useless.
"""
STATE_SECONDS = 300.0
"""Interval of polls of the inbox's state, which lists of messages do not show."""


class WorkflowInboxNoticeTrigger(SerializesArguments, BaseEventTrigger):
    """
    Emits asset events (notices) while an inbox has available messages; for an ``AssetWatcher``.

    A notice has no messages: a DAG that is scheduled on the asset leases them, with
    ``WorkflowInboxDispatchOperator``. So no message depends on one event, of which Airflow may lose some
    (while the DAG is paused, or close after another one): as long as messages are available, a notice is
    repeated every ``renotify_seconds``. A burst of messages causes one notice. The trigger never leases: it
    listens to the inbox's event stream, and polls the list of messages (docs/service.md 4 and 5), at most
    ten pages each time. For a longer list it also emits notices if messages may have arrived on pages that
    it has not read, at most every ``renotify_seconds``.

    The event's payload is ``{"inbox", "inbox_id", "workflow_conn_id", "certain"}``; ``certain`` is False
    if no available message was seen.

    It never ends. A permanent error (a wrong secret, a missing inbox) is logged once as an ERROR, and
    retried with growing pauses up to 300 s. A paused inbox is watched as well, as it may have messages.

    Only arguments are serialized, no secrets: the connection is read when the trigger runs. Watchers with
    the same arguments in one DAG file are one trigger; those of one inbox in one triggerer share its event
    stream.

    :param inbox: id or name.
    :param workflow_conn_id: id of the Airflow connection.
    :param renotify_seconds: seconds between two notices for the same messages, 5 or more.
    :param poll_interval: seconds between two polls, above 0; doubles while nothing is new.
    :param max_poll_interval: maximum interval in seconds.
    :param wake_on_events: also listen to the inbox's event stream.
    :param queue: queue of triggerers that runs this trigger (Airflow 3.4; see ``[triggerer] queues_enabled``
        and ``airflow triggerer --queues``); None is Airflow's default.
    :raises ValueError: an argument is out of range; the text names it.
    :raises AirflowOptionalProviderFeatureException: ``queue`` is given, and this Airflow is older than 3.4.
    """

    ARGUMENTS = (
        "inbox",
        "workflow_conn_id",
        "renotify_seconds",
        "poll_interval",
        "max_poll_interval",
        "wake_on_events",
        "queue",
    )

    def __init__(
        self,
        inbox: str,
        workflow_conn_id: str = "workflow_default",
        renotify_seconds: float = 60,
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        wake_on_events: bool = True,
        queue: str | None = None,
    ) -> None:
        with type_errors_in_triggerer():
            super().__init__(**queue_of_triggerers(queue, type(self).__name__))  # type: ignore[no-untyped-call, unused-ignore]
            self.queue = queue
            self.inbox = filled("inbox", inbox)
            self.workflow_conn_id = filled("workflow_conn_id", workflow_conn_id)
            self.renotify_seconds = seconds("renotify_seconds", renotify_seconds, LEAST_NOTICE_SECONDS)
            self.poll_interval, self.max_poll_interval = intervals(poll_interval, max_poll_interval)
            self.wake_on_events = flag("wake_on_events", wake_on_events)

    def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch without end. It raises nothing: Airflow would restart it every 2 s, without any back-off."""
        from airflow_provider_workflow.triggers.retrying import InboxState, watch_forever
        from airflow_provider_workflow.triggers.wakeup import NoticeSchedule

        schedule = NoticeSchedule(self.renotify_seconds, self.poll_interval, self.max_poll_interval)
        state = InboxState(self.inbox, "announced", log)
        return watch_forever(partial(self._watch, schedule, state), inbox=self.inbox, log=log)

    async def _watch(
        self, schedule: NoticeSchedule, state: InboxState, faults: Faults
    ) -> AsyncGenerator[TriggerEvent, None]:
        """Watch the inbox until an error is raised."""
        from airflow_provider_workflow.hooks.workflow import WorkflowHook
        from airflow_provider_workflow.triggers.retrying import answered_in_time
        from airflow_provider_workflow.triggers.wakeup import (
            LEAST_PAUSE_SECONDS,
            Prober,
            log_wait,
            wake_ups_of,
        )

        # Messages may have arrived before the event stream is open.
        schedule.may_have_arrived()
        # The connection is read each time: it may have been fixed.
        async with WorkflowHook(self.workflow_conn_id).async_client() as client:
            first = not state.is_known
            inbox_id = await self._poll_state(client, state)
            if first:
                log_wait(log, client, self)
            async with wake_ups_of(client, inbox_id, self.wake_on_events) as wake_up:
                state_due = clock.monotonic() + STATE_SECONDS
                prober = Prober(client, inbox_id, self._report)
                while True:
                    listed = await answered_in_time(prober.poll())
                    faults.over()
                    is_due = schedule.is_due(listed, clock.monotonic())
                    if is_due:
                        yield self._event(inbox_id, certain=bool(listed.available))
                    await _wait(wake_up, schedule, LEAST_NOTICE_SECONDS if is_due else LEAST_PAUSE_SECONDS)
                    if clock.monotonic() >= state_due:
                        state_due = clock.monotonic() + STATE_SECONDS
                        await self._poll_state(client, state)

    async def _poll_state(self, client: AsyncWorkflowClient, state: InboxState) -> str:
        """Read the inbox, log a change of its state (docs/service.md 2.2), and return its id."""
        from airflow_provider_workflow.triggers.retrying import answered_in_time
        from airflow_provider_workflow.triggers.wakeup import look_up

        inbox = await answered_in_time(look_up(client, self.inbox))
        state.seen(str(inbox["status"]), inbox.get("paused_reason"))
        return inbox["id"]

    def _report(self, messages: list[types.Message]) -> None:
        from airflow_provider_workflow.dispatch import quarantine

        quarantine.report(messages, inbox=self.inbox, conn_id=self.workflow_conn_id)

    def _event(self, inbox_id: str, *, certain: bool) -> TriggerEvent:
        from airflow_provider_workflow import observers
        from airflow_provider_workflow.client.wire import plain

        observers.tell("rung", inbox=inbox_id, conn_id=self.workflow_conn_id)
        # A string that Airflow cannot encode would end the triggerer.
        names = {"inbox": self.inbox, "inbox_id": inbox_id, "workflow_conn_id": self.workflow_conn_id}
        payload: dict[str, Any] = {name: plain(value) for name, value in names.items()}
        return TriggerEvent({**payload, "certain": certain})


async def _wait(wake_up: WakeUps | None, schedule: NoticeSchedule, at_least: float) -> None:
    """Wait until the next poll is due, at least ``at_least`` seconds."""
    from airflow_provider_workflow.triggers.wakeup import wait_for

    seconds = max(at_least, schedule.next_poll(clock.monotonic()))
    if wake_up is not None:
        await clock.async_sleep(at_least)
        seconds -= at_least
    if await wait_for(wake_up, seconds):
        schedule.may_have_arrived()
