"""``WorkflowInboxNoticeTrigger``: emits asset events while an inbox has messages; for an asset watcher."""

from __future__ import annotations

import logging
import math
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
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.client.event_stream import WakeUps
    from airflow_provider_workflow.triggers.polling import Faults, InboxState

log = logging.getLogger(__name__)

LEAST_NOTICE_SECONDS = 5.0
"""
Minimum seconds between two notices. Airflow may not start a run for an asset event that follows another one
within about 3 s. No message depends on one event, but such a notice would be useless.
"""
STATE_SECONDS = 300.0
"""Interval of polls of the inbox's state, which lists of messages do not show."""
MOST_PAGES = 10
"""Maximum number of pages of the list that one poll reads."""
DOUBT_SECONDS = 300.0
"""Interval of notices for a longer list in which no available message is seen: a lease may have expired."""


class NoticeSchedule:
    """
    When a notice is due: repeatedly while messages are available, not once for each arrival.

    It is due at once if none of the listed messages was listed at the last notice: the former ones were
    leased, and the task that leased them may have ended before the new ones arrived. Otherwise it is due
    every ``renotify_seconds``.

    If not all pages were read, and no available message was found, an uncertain notice is due when messages
    may have arrived, at most every ``renotify_seconds``, and otherwise every :data:`DOUBT_SECONDS`.

    :param renotify_seconds: seconds between two notices for the same messages, and two uncertain ones.
    :param poll_interval: seconds between two polls; doubles while nothing is new.
    :param max_poll_interval: maximum interval in seconds.
    """

    def __init__(self, renotify_seconds: float, poll_interval: float, max_poll_interval: float) -> None:
        self._renotify_seconds = renotify_seconds
        self._poll_interval = poll_interval
        self._max_poll_interval = max_poll_interval
        self._interval = poll_interval
        self._noticed: frozenset[str] = frozenset()
        self._again_at = -math.inf
        self._in_doubt = True
        self._doubt_again_at = -math.inf
        self._doubt_returns_at = -math.inf

    def may_have_arrived(self) -> None:
        """Record that messages may have arrived: after a wake-up, or a time without an event stream."""
        self._in_doubt = True
        self._interval = self._poll_interval

    def is_due(self, available: frozenset[str], whole: bool, now: float) -> bool:
        """
        Whether a notice is due for the messages that were just listed.

        :param available: ids of available messages.
        :param whole: whether all pages were read, so that an empty ``available`` is certain.
        :param now: monotonic seconds.
        """
        in_doubt = not (available or whole)
        if in_doubt and now < (self._doubt_again_at if self._in_doubt else self._doubt_returns_at):
            return False
        self._in_doubt = False
        self._doubt_returns_at = now + max(DOUBT_SECONDS, self._renotify_seconds)
        if in_doubt:
            self._doubt_again_at = now + self._renotify_seconds
            return True
        return self._is_due_for(available, now)

    def _is_due_for(self, available: frozenset[str], now: float) -> bool:
        if not available:
            self._noticed = available
            return False
        new = self._noticed.isdisjoint(available)
        if not new and now < self._again_at:
            return False
        if new:
            self._interval = self._poll_interval
        self._noticed = available
        self._again_at = now + self._renotify_seconds
        return True

    def next_poll(self, now: float) -> float:
        """
        Seconds until the next poll, unless a wake-up comes before.

        :param now: monotonic seconds.
        """
        wait, self._interval = self._interval, min(self._interval * 2, self._max_poll_interval)
        due = [self._again_at] if self._noticed else []
        due += [self._doubt_again_at] if self._in_doubt else []
        return min([wait, *(moment - now for moment in due if moment > now)])


class WorkflowInboxNoticeTrigger(SerializesArguments, BaseEventTrigger):
    """
    Emits asset events (notices) while an inbox has available messages; for an ``AssetWatcher``.

    A notice has no messages: a DAG that is scheduled on the asset leases them, with
    ``WorkflowInboxDispatchOperator``. So no message depends on one event, of which Airflow may lose some
    (while the DAG is paused, or close after another one): as long as messages are available, a notice is
    repeated every ``renotify_seconds``. A burst of messages causes one notice. The trigger never leases: it
    listens to the inbox's event stream, and polls the first ten pages of the list of messages
    (docs/service.md 4 and 5). If a longer list shows no available message there, it also emits notices when
    messages may have arrived, at most every ``renotify_seconds``, and otherwise every five minutes.

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
        from airflow_provider_workflow.triggers.polling import InboxState, watch_forever

        schedule = NoticeSchedule(self.renotify_seconds, self.poll_interval, self.max_poll_interval)
        state = InboxState(self.inbox, "announced", log)
        return watch_forever(partial(self._watch, schedule, state), self.inbox, log)

    async def _watch(
        self, schedule: NoticeSchedule, state: InboxState, faults: Faults
    ) -> AsyncGenerator[TriggerEvent, None]:
        """Watch the inbox until an error is raised."""
        from airflow_provider_workflow.hooks.workflow import WorkflowHook
        from airflow_provider_workflow.triggers.polling import (
            LEAST_PAUSE_SECONDS,
            answered_in_time,
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
                while True:
                    available, whole = await answered_in_time(self._list(client, inbox_id))
                    faults.over()
                    is_due = schedule.is_due(available, whole, clock.monotonic())
                    if is_due:
                        yield self._event(inbox_id, certain=bool(available))
                    await _wait(wake_up, schedule, LEAST_NOTICE_SECONDS if is_due else LEAST_PAUSE_SECONDS)
                    if clock.monotonic() >= state_due:
                        state_due = clock.monotonic() + STATE_SECONDS
                        await self._poll_state(client, state)

    async def _poll_state(self, client: AsyncWorkflowClient, state: InboxState) -> str:
        """Read the inbox, log a change of its state (docs/service.md 2.2), and return its id."""
        from airflow_provider_workflow.triggers.polling import answered_in_time, look_up

        inbox = await answered_in_time(look_up(client, self.inbox))
        state.seen(str(inbox["status"]), inbox.get("paused_reason"))
        return inbox["id"]

    async def _list(self, client: AsyncWorkflowClient, inbox_id: str) -> tuple[frozenset[str], bool]:
        """
        The ids of available messages of the first page that has any, and whether it is the last page.

        Quarantined messages of the pages are reported.
        """
        from airflow_provider_workflow.client import api
        from airflow_provider_workflow.dispatch import quarantine

        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await client.send(api.list_messages(inbox_id, cursor))
            messages = page["results"]
            quarantine.report(messages, inbox=self.inbox, conn_id=self.workflow_conn_id)
            available = frozenset(
                str(message.get("id")) for message in messages if message.get("status") == "available"
            )
            before, cursor = cursor, api.next_cursor(page)
            # Some services return the same page without end.
            if available or cursor in (None, before):
                return available, cursor is None
        return frozenset(), False

    def _event(self, inbox_id: str, *, certain: bool) -> TriggerEvent:
        from airflow_provider_workflow import observers
        from airflow_provider_workflow.client.wire import plain

        observers.tell("notices", inbox=inbox_id, conn_id=self.workflow_conn_id)
        # A string that Airflow cannot encode would end the triggerer.
        names = {"inbox": self.inbox, "inbox_id": inbox_id, "workflow_conn_id": self.workflow_conn_id}
        payload: dict[str, Any] = {name: plain(value) for name, value in names.items()}
        return TriggerEvent({**payload, "certain": certain})


async def _wait(wake_up: WakeUps | None, schedule: NoticeSchedule, at_least: float) -> None:
    """Wait until the next poll is due, at least ``at_least`` seconds."""
    from airflow_provider_workflow.triggers.polling import wait_for

    seconds = max(at_least, schedule.next_poll(clock.monotonic()))
    if wake_up is not None:
        await clock.async_sleep(at_least)
        seconds -= at_least
    if await wait_for(wake_up, seconds):
        schedule.may_have_arrived()
