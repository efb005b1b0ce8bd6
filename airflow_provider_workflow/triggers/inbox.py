"""``WorkflowInboxTrigger``: waits for messages, leases them, and passes the lease to a deferred sensor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, conf
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_workflow import clock
from airflow_provider_workflow.triggers.base import SerializesArguments

if TYPE_CHECKING:
    from airflow_provider_workflow import types
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.dispatch.lease import HeldLease

log = logging.getLogger(__name__)

RELEASE_SECONDS = 10.0
"""How long a trigger that is being ended tries to release its lease."""


class WorkflowInboxTrigger(SerializesArguments, BaseTrigger):
    """
    Leases messages and fires once, with the lease as one ASCII JSON string (docs/service.md 4 and 5).

    Its event is ``{"status": ..., "inbox_id": ...}``. The status is ``leased`` (with ``inbox_name`` and
    ``lease``, and with ``trace`` if spans are made), ``paused`` or ``initialization_failure`` (with
    ``reason``), or ``poll``: nothing was leased, and the task should poll. The trigger never acknowledges, as
    Airflow may silently drop an event; the resumed task does.

    Only arguments are serialized, no secrets: the connection is read when the trigger runs.

    :param inbox: id or name.
    :param workflow_conn_id: id of the Airflow connection.
    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 1 to 3600 s.
    :param poll_interval: seconds between two polls, above 0; doubles while the inbox stays empty.
    :param max_poll_interval: maximum interval in seconds.
    :param wake_on_events: also listen to the inbox's event stream.
    :param on_paused: ``fail`` fires for a paused inbox without messages, ``wait`` waits until it is resumed.
    :param settle_seconds: seconds to wait before the first lease, 0 or more. Airflow fails the task if a
        trigger fires while the process that deferred is still ending.
    :param hold_seconds: if above 0, lease nothing, and fire ``poll`` after this many seconds.
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
        on_paused: str = "fail",
        settle_seconds: float = 0,
        hold_seconds: float = 0,
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
        self._paused_reason: str | None = None
        self._unsent: tuple[AsyncWorkflowClient, str, str] | None = None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """
        Wait, lease, fire once.

        :raises WorkflowError: a permanent error: wrong credentials, no such inbox.
        """
        from airflow_provider_workflow.hooks.workflow import WorkflowHook
        from airflow_provider_workflow.triggers.polling import Faults, log_wait, look_up, poll, wake_ups_of

        await clock.async_sleep(max(self.settle_seconds, self.hold_seconds))
        if self.hold_seconds > 0:
            yield TriggerEvent({"status": "poll"})
            return
        async with WorkflowHook(self.workflow_conn_id).async_client() as client:
            faults = Faults(self.inbox, log)
            inbox_id = (await poll(partial(look_up, client, self.inbox), None, self, faults))["id"]
            async with wake_ups_of(client, inbox_id, self.wake_on_events) as wake_up:
                log_wait(log, client, self)
                event = await poll(partial(self._lease, client, inbox_id), wake_up, self, faults)
                # Inside the context: a cancellation while it is closed would lose the lease.
                yield TriggerEvent(event)
                self._unsent = None  # Airflow has it

    async def cleanup(self) -> None:
        """
        Release a lease whose event Airflow has not taken. Airflow calls this whenever a trigger ends.

        Airflow logs an event before it takes it, and may end the trigger in between.
        """
        if self._unsent is not None:
            from airflow_provider_workflow.client.client import carry_through

            unsent, self._unsent = self._unsent, None
            await carry_through(_release(*unsent))

    async def _lease(self, client: AsyncWorkflowClient, inbox_id: str) -> dict[str, Any] | None:
        """Lease once; return the event to fire, or None to continue waiting."""
        from airflow_provider_workflow import observers
        from airflow_provider_workflow.client.client import carry_through
        from airflow_provider_workflow.client.errors import InboxPausedError
        from airflow_provider_workflow.dispatch import quarantine
        from airflow_provider_workflow.types import FAILED, PAUSED

        leasing = asyncio.ensure_future(_leased_text(client, inbox_id, self.lease_limit, self.lease_seconds))
        try:
            answer, text = await asyncio.shield(leasing)
        except asyncio.CancelledError:
            await carry_through(_release_when_leased(client, inbox_id, leasing))
            raise
        except InboxPausedError as paused:
            return self._event_of_paused(inbox_id, paused.paused_reason)
        attributes = answer.get("inbox_attributes") or {}
        status = attributes.get("status")
        if status == FAILED:
            return inactive_event(FAILED, inbox_id, str(attributes.get("paused_reason") or "no reason given"))
        if self._paused_reason is not None and status != PAUSED:
            log.info("Inbox %s is no longer paused", self.inbox)
            self._paused_reason = None
        if text:
            self._unsent = client, inbox_id, str(answer["lease_id"])
            name = observers.name_of(inbox_id)
            leased = {"status": "leased", "inbox_id": inbox_id, "inbox_name": name, "lease": text}
            return leased | _trace_of(str(answer["lease_id"]))
        await quarantine.check_in_loop(client, self.inbox)
        return None

    def _event_of_paused(self, inbox_id: str, reason: str) -> dict[str, Any] | None:
        from airflow_provider_workflow.client.wire import plain
        from airflow_provider_workflow.types import PAUSED

        if self.on_paused != "wait":
            return inactive_event(PAUSED, inbox_id, reason)
        if reason != self._paused_reason:
            log.warning("Inbox %s is paused (%s); waiting until it is resumed", self.inbox, plain(reason))
        self._paused_reason = reason
        return None


def settle_seconds() -> float:
    """
    Seconds that a deferred task must wait before it is resumed.

    Airflow notices the end of its process up to ``min_heartbeat_interval`` later, and fails the task if it is
    queued again before that.
    """
    return float(conf.getfloat("workers", "min_heartbeat_interval", fallback=5.0)) + 1


def inactive_event(status: str, inbox_id: str, reason: str) -> dict[str, Any]:
    """The event for an inbox that is paused, or failed to initialize."""
    from airflow_provider_workflow.client.wire import plain

    return {"status": status, "inbox_id": inbox_id, "reason": plain(reason)}


def _trace_of(lease_id: str) -> dict[str, Any]:
    """The part of an event by which the task links its spans to that of the lease; empty without a tracer."""
    from airflow_provider_workflow.config import traces
    from airflow_provider_workflow.observers import tracing

    carrier = tracing.hand_off(lease_id) if traces() else {}
    return {"trace": carrier} if carrier else {}


def lease_of(inbox: str, event: dict[str, Any]) -> HeldLease | None:
    """
    The lease in an event of a ``WorkflowInboxTrigger``; None if the event only asks for a poll.

    :param inbox: name of the inbox in errors.
    :raises InboxNotActiveError: the inbox is paused and has no more messages.
    :raises InboxUnusableError: the inbox failed to initialize.
    :raises AirflowException: the event is not one of the trigger's.
    """
    from airflow_provider_workflow import observers
    from airflow_provider_workflow.config import traces
    from airflow_provider_workflow.dispatch.lease import HeldLease, InboxNotActiveError, InboxUnusableError
    from airflow_provider_workflow.observers import tracing
    from airflow_provider_workflow.types import FAILED, PAUSED

    status = event.get("status")
    if status == "leased":
        inbox_id, name = event.get("inbox_id") or "", event.get("inbox_name")
        if inbox_id and name:
            # For the tags of metrics: this process has not looked up the name.
            observers.remember_name(inbox_id, name)
        lease = HeldLease.from_hand_off(event["lease"])
        if "trace" in event and traces():
            tracing.take_over(lease.lease_id, [message["id"] for message in lease.messages], event["trace"])
        return lease
    if status == "poll":
        return None
    errors = {PAUSED: InboxNotActiveError, FAILED: InboxUnusableError}
    if status in errors:
        raise errors[status](inbox, event.get("reason"))
    raise AirflowException(f"The trigger sent an unknown event: {status!r}")


async def _leased_text(
    client: AsyncWorkflowClient, inbox_id: str, limit: int, seconds: int
) -> tuple[types.LeaseAnswer, str]:
    """The answer to a lease request, and the encoded lease for the task; an empty string without messages."""
    from airflow_provider_workflow.client import api
    from airflow_provider_workflow.dispatch.lease import HeldLease

    answer = await client.send(api.lease_messages(inbox_id, limit, seconds))
    lease = HeldLease.of(inbox_id, answer, seconds)
    return answer, "" if lease is None else await asyncio.to_thread(lease.hand_off)


async def _release_when_leased(
    client: AsyncWorkflowClient, inbox_id: str, leasing: asyncio.Future[tuple[types.LeaseAnswer, str]]
) -> None:
    """Wait for a pending lease request, and release its messages: the trigger is ending."""
    from airflow_provider_workflow.client.errors import WorkflowError

    try:
        async with clock.timeout(RELEASE_SECONDS):
            answer, _ = await leasing
    except (TimeoutError, WorkflowError):
        return
    if answer.get("lease_id"):
        await _release(client, inbox_id, str(answer["lease_id"]))


async def _release(client: AsyncWorkflowClient, inbox_id: str, lease_id: str) -> None:
    """Release a lease; ignore errors, as it expires anyway."""
    from airflow_provider_workflow.client import api
    from airflow_provider_workflow.client.errors import WorkflowError

    with contextlib.suppress(WorkflowError, asyncio.TimeoutError):
        async with clock.timeout(RELEASE_SECONDS):
            await client.send(api.release_messages(inbox_id, lease_id))
