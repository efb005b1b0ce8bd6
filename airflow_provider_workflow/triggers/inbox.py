"""``WorkflowInboxTrigger``: waits for messages, leases them, and passes the lease to a deferred sensor."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import conf
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_workflow import clock
from airflow_provider_workflow.inbox_names import name_of, remember_name
from airflow_provider_workflow.source import (
    RANDOM,
    Alarm,
    SourceError,
    SourceProblem,
    problem_of,
    problem_of_error,
    reading_pause,
)
from airflow_provider_workflow.triggers.base import SerializesArguments

if TYPE_CHECKING:
    from airflow_provider_workflow.dispatch.lease import HeldLease
    from airflow_provider_workflow.triggers.polling import InboxHealth, InboxSession

log = logging.getLogger(__name__)

POLL = {"status": "poll"}
"""The payload of an event without a lease."""

SCHEDULER_LOOP_SECONDS = 5.0
"""The longest loop of a scheduler that costs a resumed task no try."""


class WorkflowInboxTrigger(SerializesArguments, BaseTrigger):
    """
    Leases messages and fires once, with the lease as one ASCII JSON string (docs/service.md 4 and 5).

    The ``status`` of its event is ``leased`` (with ``inbox_name`` and ``lease``), or ``poll``: the task
    should poll itself, as after a lease over 1 MB, which is released. With a ``problem`` in the event the
    source is in trouble, and that is an alarm; until it is one, the trigger waits. ``alarm`` is the state
    with which the task continues to decide that. The trigger never acknowledges, as Airflow may silently
    drop an event; the resumed task does.

    :param inbox: id or name.
    :param workflow_conn_id: id of the Airflow connection.
    :param lease_limit: messages per lease, 1 to 100; 0 leases nothing, and fires ``poll`` when messages are
        available, so that no payload becomes a row of Airflow's database.
    :param lease_seconds: length of a lease, 1 to 3600 s.
    :param poll_interval: seconds between two polls, above 0; doubles while the inbox stays empty.
    :param max_poll_interval: maximum interval in seconds.
    :param wake_on_events: also listen to the inbox's event stream.
    :param on_paused: ``fail`` takes an inbox that the service has paused for a problem; ``wait``, and
        ``fail`` after a pause by a user, waits until it is resumed.
    :param settle_seconds: seconds to wait before the first lease, 0 or more. Airflow fails the task if a
        trigger fires while the process that deferred is still ending.
    :param hold_seconds: if above 0, lease nothing, and fire ``poll`` after this many seconds.
    :param alarm: the task's part of the trouble of its source, a record of
        ``Alarm``; None without any.
    """

    ARGUMENTS = (
        "inbox",
        "workflow_conn_id",
        "lease_limit",
        "lease_seconds",
        "poll_interval",
        "max_poll_interval",
        "wake_on_events",
        "on_paused",
        "settle_seconds",
        "hold_seconds",
        "alarm",
    )

    def __init__(
        self,
        inbox: str,
        workflow_conn_id: str = "workflow_default",
        lease_limit: int = 100,
        lease_seconds: int = 300,
        poll_interval: float = 5,
        max_poll_interval: float = 60,
        wake_on_events: bool = True,
        on_paused: Literal["fail", "wait"] = "fail",
        settle_seconds: float = 0,
        hold_seconds: float = 0,
        alarm: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inbox = inbox
        self.workflow_conn_id = workflow_conn_id
        self.lease_limit = lease_limit
        self.lease_seconds = lease_seconds
        self.poll_interval = poll_interval
        self.max_poll_interval = max_poll_interval
        self.wake_on_events = wake_on_events
        self.on_paused = on_paused
        self.settle_seconds = settle_seconds
        self.hold_seconds = hold_seconds
        self.alarm = alarm
        self._alarm = Alarm.of(alarm)
        self._state_due = -math.inf

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """
        Wait, lease, fire once.

        :raises WorkflowError: a permanent error that is not of the source.
        """
        from airflow_provider_workflow.client.errors import TransportError, WorkflowError
        from airflow_provider_workflow.triggers.polling import InboxHealth, open_session

        await clock.async_sleep(max(self.settle_seconds, self.hold_seconds))
        if self.hold_seconds > 0:
            yield TriggerEvent(POLL)
            return
        health = InboxHealth(self.inbox, self.workflow_conn_id, log)
        while True:
            try:
                async with open_session(self, health) as session:
                    step = self._lease if self.lease_limit else self._look
                    while (event := await step(session, health)) is None:
                        health.succeeded()
                        # At random moments, as a fixed rhythm could always meet the same state.
                        min_seconds = max(self.poll_interval, self.max_poll_interval / 3)
                        max_seconds = max(min_seconds, self.max_poll_interval * 0.9)
                        await session.waits.wait(max_seconds=RANDOM.uniform(min_seconds, max_seconds))
                    health.succeeded()
                    yield TriggerEvent({**event, "alarm": self._alarm.record()})
                    return
            except (WorkflowError, SourceError) as error:
                if isinstance(error, TransportError) and error.permanent:
                    # The CA file may be newer than this client; the task reads it again.
                    yield TriggerEvent({**POLL, "alarm": self._alarm.record()})
                    return
                problem = problem_of_error(error)
                if problem is None and not getattr(error, "transient", False):
                    raise
                pause = health.failed(error)
            event = None if problem is None else self._found(problem)
            if event is not None:
                yield TriggerEvent(event)
                return
            await clock.async_sleep(pause)

    def _found(self, problem: SourceProblem) -> dict[str, Any] | None:
        """Take a reading with a problem; return the event to fire if that is an alarm."""
        self._alarm.found(problem)
        if not self._alarm.is_due():
            return None
        return {**POLL, "problem": problem.described(), "alarm": self._alarm.record()}

    async def _lease(self, session: InboxSession, health: InboxHealth) -> dict[str, Any] | None:
        """
        Lease once; return the event to fire, or None to continue waiting.

        :raises SourceError: the inbox failed to initialize, or is being deleted.
        :raises NotFoundError: the inbox does not exist.
        """
        from airflow_provider_workflow.client import api
        from airflow_provider_workflow.client.errors import InboxPausedError, WorkflowError
        from airflow_provider_workflow.dispatch.lease import HeldLease
        from airflow_provider_workflow.dispatch.quarantine import check_quarantine_in_loop
        from airflow_provider_workflow.types import PAUSED

        inbox_id, call = session.inbox["id"], api.lease_messages
        lease = None
        try:
            answer = await session.client.send(call(inbox_id, self.lease_limit, self.lease_seconds))
            attributes = answer.get("inbox_attributes") or {}
            lease = HeldLease.of(inbox_id, answer, self.lease_seconds, self.workflow_conn_id)
        except InboxPausedError as paused:
            attributes = {"status": PAUSED, "paused_reason": paused.paused_reason}
        event = self._read(attributes, health, has_messages=lease is not None)
        if lease is None and event is not None:
            return event
        if lease is None:
            await check_quarantine_in_loop(session.client, inbox_id)
            return None
        try:
            text = await asyncio.to_thread(lease.hand_off)
        except ValueError as error:
            # The task leases the messages itself.
            name = name_of(inbox_id, self.workflow_conn_id)
            log.info("Inbox %s: releasing a lease that cannot be handed off: %s", name, error)
            with suppress(WorkflowError):
                await session.client.send(api.release_messages(inbox_id, lease.lease_id, lease.message_ids))
            return POLL
        name = name_of(inbox_id, self.workflow_conn_id)
        return {"status": "leased", "inbox_name": name, "lease": text}

    def _read(
        self, inbox: Mapping[str, Any], health: InboxHealth, *, has_messages: bool
    ) -> dict[str, Any] | None:
        """
        Take a reading of the source; return the event to fire if its problem is an alarm.

        :param inbox: ``status`` and ``paused_reason``.
        :raises SourceError: it has no messages, and failed to initialize or is being deleted.
        """
        from airflow_provider_workflow.types import FAILED, PAUSED

        name = name_of(self.inbox, self.workflow_conn_id)
        problem = problem_of(inbox, name, self.workflow_conn_id)
        if problem is not None and problem.kind != PAUSED and not has_messages:
            raise SourceError(problem)
        if inbox.get("status") != FAILED:  # one that has a last lease
            health.seen(inbox)
        if problem is None or not problem.is_alarm(self.on_paused):
            self._alarm.sound()
            return None
        return self._found(problem)

    async def _look(self, session: InboxSession, health: InboxHealth) -> dict[str, Any] | None:
        """
        List the messages, and read the state of the inbox now and then; return the event to fire, or None.

        :raises SourceError: as ``_read``.
        :raises NotFoundError: the inbox does not exist.
        """
        from airflow_provider_workflow.triggers import polling

        if await polling.available_in(session, self):
            return POLL
        if clock.monotonic() < self._state_due:
            return None
        self._state_due = clock.monotonic() + reading_pause()
        inbox = await polling.look_up(session.client, self.inbox)
        if inbox["id"] != session.inbox["id"]:
            return POLL  # another inbox has its name now
        return self._read(inbox, health, has_messages=False)


def settle_seconds() -> float:
    """
    Seconds that a task must wait before Airflow may queue it again.

    Its supervisor notices its end up to ``min_heartbeat_interval`` later, and the scheduler in its next loop;
    it fails a task that was queued before.
    """
    heartbeat = float(conf.getfloat("workers", "min_heartbeat_interval", fallback=5.0))
    return heartbeat + SCHEDULER_LOOP_SECONDS


def lease_of(event: dict[str, Any], conn_id: str) -> HeldLease | None:
    """
    The lease in an event of a ``WorkflowInboxTrigger``; None if the event only asks for a poll.

    :param conn_id: id of the Airflow connection.
    """
    from airflow_provider_workflow.dispatch.lease import HeldLease

    if event.get("status") != "leased":
        return None
    lease = HeldLease.from_hand_off(event["lease"])
    # For logs and the tags of metrics: this process has not looked up the name.
    remember_name(lease.inbox_id, conn_id, event["inbox_name"])
    return lease
