"""``WorkflowInboxNoticeTrigger``: emits asset events while an inbox has messages; for an asset watcher."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_workflow import clock
from airflow_provider_workflow.airflow_internals import airflow_release
from airflow_provider_workflow.client.arguments import intervals, require_bool, require_text, seconds
from airflow_provider_workflow.inbox_names import name_of
from airflow_provider_workflow.source import (
    ALARM_AGAIN_SECONDS,
    Alarm,
    SourceProblem,
    problem_of,
    problem_of_error,
    reading_pause,
)
from airflow_provider_workflow.triggers.base import (
    SerializesArguments,
    queue_of_triggerers,
    type_errors_in_triggerer,
)

if TYPE_CHECKING:
    pass

log = logging.getLogger(__name__)

MIN_NOTICE_SECONDS = 5.0
"""
Minimum seconds between two notices. Airflow may not start a run for an asset event that follows another one
within about 3 s. No message depends on one event, but such a notice would be useless.
"""
MAX_RUN_SECONDS = 660.0
"""How long a run may drain an inbox. Before Airflow 3.4, an alarm meanwhile may start no run."""
STORE_SECONDS = 10.0
"""Timeout of a request to Airflow's asset state store."""


class NoticeSchedule:
    """
    When a notice is due: repeatedly while messages are available, not once for each arrival.

    It is due at once if none of the listed messages was listed at the last notice: the former ones were
    leased, and the task that leased them may have ended before the new ones arrived. Otherwise it is due
    every ``renotify_seconds``.

    :param renotify_seconds: seconds between two notices for the same messages.
    """

    def __init__(self, renotify_seconds: float) -> None:
        self._renotify_seconds = renotify_seconds
        self._noticed: frozenset[str] = frozenset()
        self._again_at = -math.inf
        self.noticed_at = -math.inf

    def is_due(self, available: frozenset[str]) -> bool:
        """
        Whether a notice is due for the messages that were just listed.

        :param available: ids of available messages.
        """
        now = clock.monotonic()
        is_due = bool(available) and (self._noticed.isdisjoint(available) or now >= self._again_at)
        if is_due:
            self.noticed_at = now
            self._again_at = now + self._renotify_seconds
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

    The inbox's state is read at random intervals of 20 to 60 s. If the service has paused the inbox (for any
    reason but ``user``), the inbox failed to initialize, is being deleted or is missing, or the credentials
    are rejected, at two readings at least 60 s apart, there is a notice with ``alarm`` true and a ``problem``
    (``kind``, ``text`` and ``since``), with which the listener fails. Until the inbox was sound for an hour
    there is another one every 6 hours (before Airflow 3.4 the first one also after 11 minutes, if messages
    waited). On Airflow 3.3 and later the asset state store keeps the time of the last alarm, so a restarted
    triggerer does not repeat it, if the trigger has one asset.

    It never ends: it retries after all errors, with pauses of up to a minute. Watchers with the same
    arguments in one DAG file are one trigger; those of one inbox in one triggerer share its event stream.

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
            self.inbox = require_text("inbox", inbox)
            self.workflow_conn_id = require_text("workflow_conn_id", workflow_conn_id)
            self.renotify_seconds = seconds("renotify_seconds", renotify_seconds, MIN_NOTICE_SECONDS)
            self.poll_interval, self.max_poll_interval = intervals(poll_interval, max_poll_interval)
            self.wake_on_events = require_bool("wake_on_events", wake_on_events)
            self._alarm = Alarm()
            self._repeat_at = math.inf

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Watch without end. It raises nothing: Airflow would restart it every 2 s, without any back-off."""
        from airflow_provider_workflow.triggers import polling

        self._started_at = clock.now()
        schedule = NoticeSchedule(self.renotify_seconds)
        health = polling.InboxHealth(self.inbox, self.workflow_conn_id, log)
        is_alarm = False  # an alarm is due, and its notice was not made yet
        while True:
            try:
                # The connection is read each time: it may have been fixed.
                async with polling.open_session(self, health) as session:
                    inbox, state_due = session.inbox, -math.inf
                    while inbox["id"] == session.inbox["id"]:  # else a new one has its name
                        if clock.monotonic() >= state_due:
                            health.seen(inbox)
                            name = name_of(self.inbox, self.workflow_conn_id)
                            problem = problem_of(inbox, name, self.workflow_conn_id)
                            problem = problem if problem and problem.is_alarm() else None
                            is_alarm = await self._is_alarm(problem, schedule)
                            state_due = clock.monotonic() + reading_pause()
                        available = await polling.available_in(session, self)
                        is_due = schedule.is_due(available) or is_alarm
                        health.succeeded()
                        if is_due:
                            session.waits.reset()
                            yield self._event(session.inbox["id"], is_alarm=is_alarm)
                            is_alarm = False
                        min_seconds = MIN_NOTICE_SECONDS if is_due else polling.MIN_WAIT_SECONDS
                        due = min(schedule.seconds_left(), state_due - clock.monotonic())
                        await session.waits.wait(min_seconds, due)
                        if clock.monotonic() >= state_due:
                            inbox = await polling.look_up(session.client, self.inbox)
                continue
            except Exception as error:
                pause = health.failed(error)
                problem = None if getattr(error, "transient", False) else _problem_of(error)
            if problem is not None:
                is_alarm |= await self._is_alarm(problem, schedule)
            if is_alarm:
                yield self._event("", is_alarm=True)
                is_alarm = False
            await clock.async_sleep(pause)

    async def _is_alarm(self, problem: SourceProblem | None, schedule: NoticeSchedule) -> bool:
        """Take a reading of the source; return whether a notice of an alarm is due."""
        self._tell_active(problem is None)
        alarm = self._alarm
        if problem is None:
            if alarm.sound():
                await self._in_store("adelete")
        else:
            if not alarm.is_recalled:
                record = await self._in_store("aget")
                alarmed_at = Alarm.of(record).alarmed_at
                if alarmed_at is not None and clock.now() - alarmed_at < ALARM_AGAIN_SECONDS:
                    # The record is of its last alarm; the problem may have lasted until this start.
                    alarm.recall({**record, "problem_at": self._started_at})
                alarm.is_recalled = True
            alarm.found(problem)
        now = clock.monotonic()
        if alarm.is_due():
            is_recent = now - schedule.noticed_at < MAX_RUN_SECONDS and airflow_release() < (3, 4)
            self._repeat_at = now + MAX_RUN_SECONDS if is_recent and not alarm.alarmed_at else math.inf
            alarm.raised()
            await self._in_store("aset", alarm.record())
            return True
        is_repeated = problem is not None and now >= self._repeat_at
        if is_repeated:
            self._repeat_at = math.inf
        return is_repeated

    async def _in_store(self, method: str, *value: Any) -> Any:
        """
        Read, write or delete the record of the last alarm in the state store of the trigger's asset.

        Airflow has none before 3.3, and no single one for a trigger of several assets. The watcher then
        knows only its own alarms.
        """
        store = getattr(self, "asset_state_store", None)
        if store is None:
            return None
        key = f"workflow_alarm:{self.workflow_conn_id}:{self.inbox}"
        try:
            async with clock.timeout(STORE_SECONDS):
                return await getattr(store, method)(key, *value)
        except Exception as error:
            cause = type(error).__name__
            text = (
                "Inbox %s: the last alarm is not kept in the asset state store (%s); a restart may repeat it"
            )
            log.info(text, name_of(self.inbox, self.workflow_conn_id), cause)
            return None

    def _tell_active(self, is_active: bool) -> None:
        from airflow_provider_workflow import observers

        facts = {observers.ACTIVE: int(is_active)}
        observers.notify("source", inbox=self.inbox, conn_id=self.workflow_conn_id, facts=facts)

    def _event(self, inbox_id: str, *, is_alarm: bool) -> TriggerEvent:
        from airflow_provider_workflow import observers
        from airflow_provider_workflow.text import escaped

        observers.notify("notices", inbox=inbox_id or self.inbox, conn_id=self.workflow_conn_id)
        # A string that Airflow cannot encode would end the triggerer.
        names = {"inbox": self.inbox, "inbox_id": inbox_id, "workflow_conn_id": self.workflow_conn_id}
        payload: dict[str, Any] = {name: escaped(value) for name, value in names.items()}
        payload["alarm"] = is_alarm
        if is_alarm and self._alarm.problem is not None:
            payload["problem"] = {**self._alarm.problem.described(), "since": self._alarm.since}
        return TriggerEvent(payload)


def _problem_of(error: Exception) -> SourceProblem:
    """The problem of an error that is not transient, whatever the error: no message arrives meanwhile."""
    from airflow_provider_workflow.triggers.polling import SELF_EXPLANATORY

    name = type(error).__name__
    text = (
        str(error)
        if isinstance(error, SELF_EXPLANATORY)
        else f"{name} in the trigger; see the triggerer's log"
    )
    return problem_of_error(error) or SourceProblem("unusable", text)
