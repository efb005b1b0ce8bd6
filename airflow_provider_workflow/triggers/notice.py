"""``WorkflowInboxNoticeTrigger``: emits asset events while an inbox has messages; for an asset watcher."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_workflow import clock
from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.client.arguments import filled, flag, intervals, seconds
from airflow_provider_workflow.triggers import (
    SerializesArguments,
    queue_of_triggerers,
    type_errors_in_triggerer,
)

if TYPE_CHECKING:
    from airflow_provider_workflow.triggers.polling import Source

log = logging.getLogger(__name__)

LEAST_NOTICE_SECONDS = 5.0
"""
Minimum seconds between two notices. Airflow may not start a run for an asset event that follows another one
within about 3 s. No message depends on one event, but such a notice would be useless.
"""
STATE_SECONDS = 120.0
"""Interval of polls of the inbox's state, which lists of messages do not show."""
CONFIRM_SECONDS = 60.0
"""How long a permanent error must last before an alarm: an inbox may be deleted and created again."""
AWAY_SECONDS = 180.0
"""The same for an error that Airflow also raises while its API is away."""
ALARM_AGAIN_SECONDS = 6 * 3600.0
LONGEST_RUN_SECONDS = 660.0
"""How long a run may drain an inbox. Before Airflow 3.4, an alarm meanwhile may start no run."""
MOST_PAGES = 10
"""Maximum number of pages of the list that one poll reads."""
UNSEEN = frozenset({""})
"""Stands for the available messages that a longer list may have."""
UNUSABLE = frozenset({"it cannot be used"})
"""The reason of an alarm if an inbox cannot be read."""


class NoticeSchedule:
    """
    When a notice is due: repeatedly while messages are available, not once for each arrival.

    It is due at once if none of the listed messages was listed at the last notice: the former ones were
    leased, and the task that leased them may have ended before the new ones arrived. Otherwise it is due
    every ``renotify_seconds``. Alarms have a schedule of their own, with their reason for the messages.

    :param renotify_seconds: seconds between two notices for the same messages.
    """

    def __init__(self, renotify_seconds: float) -> None:
        self._renotify_seconds = renotify_seconds
        self._noticed: frozenset[str] = frozenset()
        self._again_at = -math.inf
        self.noticed_at = -math.inf

    def is_due(self, available: frozenset[str], other: NoticeSchedule | None = None) -> bool:
        """
        Whether a notice is due for the messages that were just listed.

        :param available: ids of available messages, or the reason for an alarm.
        :param other: soon after its notices the first one for an alarm is repeated, as it may start no run.
        """
        now = clock.monotonic()
        is_first = self._noticed.isdisjoint(available)
        is_due = bool(available) and (is_first or now >= self._again_at)
        if is_due:
            self.noticed_at = now
            self._again_at = now + self._renotify_seconds
            is_recent = other is not None and now - other.noticed_at < LONGEST_RUN_SECONDS
            if is_first and is_recent and airflow_release() < (3, 4):
                self._again_at = now + LONGEST_RUN_SECONDS
        if is_due or not available:
            self._noticed = available
        return is_due

    def seconds_left(self) -> float:
        """Seconds until a notice for the same messages is due; infinite if none were noticed."""
        return self._again_at - clock.monotonic() if self._noticed else math.inf


class WorkflowInboxNoticeTrigger(SerializesArguments, BaseEventTrigger):
    """
    Emits asset events (notices) while an inbox has available messages; for an ``AssetWatcher``.

    A notice has no messages: a DAG that is scheduled on the asset leases them, with
    ``WorkflowInboxDispatchOperator``. Airflow may lose an event, so a notice is repeated while messages are
    available. A burst of messages causes one notice. The trigger never leases: it listens to the inbox's
    event stream, and polls the first ten pages of the list of messages (docs/service.md 4 and 5).

    The event's payload is ``{"inbox", "inbox_id", "workflow_conn_id", "alarm"}``.

    While the service has paused the inbox (for any reason but ``user``), the inbox failed to initialize or is
    missing, or the credentials are rejected, there is a notice within 5 minutes and again every 6 hours, with
    ``alarm`` true (before Airflow 3.4 also after 11 minutes, if messages waited). The listener then
    fails, with the fix.

    It never ends: it retries after all errors, with growing pauses. Watchers with the same arguments in one
    DAG file are one trigger; those of one inbox in one triggerer share its event stream.

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
            self._broken_at = math.inf

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch without end. It raises nothing: Airflow would restart it every 2 s, without any back-off."""
        from airflow_provider_workflow.client.advice import why_silent
        from airflow_provider_workflow.triggers import polling

        schedule, alarms = NoticeSchedule(self.renotify_seconds), NoticeSchedule(ALARM_AGAIN_SECONDS)
        health = polling.InboxHealth(self.inbox, log)
        while True:
            try:
                # The connection is read each time: it may have been fixed.
                async with polling.opened(self, health) as source:
                    inbox = source.inbox
                    state_due = clock.monotonic() + STATE_SECONDS
                    while inbox["id"] == source.inbox["id"]:  # else a new one has its name
                        health.seen(inbox)
                        is_due = schedule.is_due(await self._available(source))
                        health.succeeded()
                        self._broken_at = math.inf
                        reason = why_silent(inbox)
                        self._tell_active(inbox["id"], reason is None)
                        is_alarm = alarms.is_due(frozenset({reason} if reason else ()), schedule)
                        is_due |= is_alarm
                        if is_due:
                            source.waits.reset()
                            yield self._event(source.inbox["id"], is_alarm=is_alarm)
                        least = LEAST_NOTICE_SECONDS if is_due else polling.LEAST_WAIT_SECONDS
                        due = min(schedule.seconds_left(), state_due - clock.monotonic())
                        await source.waits.wait(least, due)
                        if clock.monotonic() >= state_due:
                            state_due += STATE_SECONDS
                            inbox = await polling.look_up(source.client, self.inbox)
                continue
            except Exception as error:
                pause = health.failed(error)
                seconds_left = self._unconfirmed_seconds(error)
            if seconds_left > 0:
                pause = min(pause, seconds_left)
            elif alarms.is_due(UNUSABLE, schedule):
                yield self._event("", is_alarm=True)
            await clock.async_sleep(pause)

    def _unconfirmed_seconds(self, error: Exception) -> float:
        """For how long an error must still last before an alarm."""
        from airflow_provider_workflow.hooks.workflow import may_be_away

        now = clock.monotonic()
        if getattr(error, "transient", False):
            return math.inf
        self._tell_active(self.inbox, False)
        self._broken_at = min(self._broken_at, now)
        confirm = AWAY_SECONDS if may_be_away(error) else CONFIRM_SECONDS
        return self._broken_at + confirm - now

    async def _available(self, source: Source) -> frozenset[str]:
        """
        The ids of available messages of the first page that has any.

        Quarantined messages of the pages are reported.
        """
        from airflow_provider_workflow.client import api
        from airflow_provider_workflow.dispatch.lease import report_quarantined

        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await source.client.send(api.list_messages(source.inbox["id"], cursor))
            messages = page["results"]
            report_quarantined(messages, inbox=self.inbox, conn_id=self.workflow_conn_id)
            available = frozenset(
                str(message.get("id")) for message in messages if message.get("status") == "available"
            )
            cursor = api.next_cursor(page)
            if available or cursor is None:
                return available
        return UNSEEN

    def _tell_active(self, inbox: str, is_active: bool) -> None:
        from airflow_provider_workflow import observers

        facts = {observers.ACTIVE: int(is_active)}
        observers.tell("source", inbox=inbox, conn_id=self.workflow_conn_id, facts=facts)

    def _event(self, inbox_id: str, *, is_alarm: bool) -> TriggerEvent:
        from airflow_provider_workflow import observers
        from airflow_provider_workflow.client.wire import plain

        observers.tell("notices", inbox=inbox_id or self.inbox, conn_id=self.workflow_conn_id)
        # A string that Airflow cannot encode would end the triggerer.
        names = {"inbox": self.inbox, "inbox_id": inbox_id, "workflow_conn_id": self.workflow_conn_id}
        payload: dict[str, Any] = {name: plain(value) for name, value in names.items()}
        return TriggerEvent({**payload, "alarm": is_alarm})
