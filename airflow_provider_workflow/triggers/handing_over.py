"""How a ``WorkflowInboxTrigger`` waits for messages, leases them, and hands the lease over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.base import TriggerEvent

from airflow_provider_workflow import clock, metrics
from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.errors import InboxPausedError, NotFoundError, WorkflowError
from airflow_provider_workflow.client.inboxes import FAILED, PAUSED
from airflow_provider_workflow.client.waiting import carry_through
from airflow_provider_workflow.dispatch import quarantine
from airflow_provider_workflow.dispatch.lease import HeldLease
from airflow_provider_workflow.dispatch.session import MissingInbox
from airflow_provider_workflow.hooks.workflow import WorkflowHook
from airflow_provider_workflow.triggers.retrying import patiently
from airflow_provider_workflow.triggers.wakeup import bell_of, find_inbox, log_wait, wait_for
from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.client.event_stream import Bell
    from airflow_provider_workflow.triggers.inbox import WorkflowInboxTrigger

log = logging.getLogger(__name__)

T = TypeVar("T")

RELEASE_SECONDS = 10.0
"""How long a trigger that is being ended tries to give its lease back."""


class HandOver:
    """
    :param asked: what to wait for, and how.
    """

    def __init__(self, asked: WorkflowInboxTrigger) -> None:
        self._asked = asked
        self._waits_for: str | None = None
        self._missing = MissingInbox(asked.inbox)
        self._to_give_back: tuple[AsyncWorkflowClient, str, str] | None = None

    async def events(self) -> AsyncIterator[TriggerEvent]:
        """
        Wait, lease, fire once.

        :raises WorkflowError: a fault that waiting does not cure.
        """
        await clock.async_sleep(max(self._asked.settle_seconds, self._asked.hold_seconds))
        if self._asked.hold_seconds > 0:
            yield TriggerEvent({"status": "look"})
            return
        async with WorkflowHook(self._asked.workflow_conn_id).async_client() as client:
            while True:
                try:
                    inbox_id = await self._patiently(partial(find_inbox, client, self._asked.inbox), None)
                except NotFoundError as error:
                    await clock.async_sleep(self._missing.pause(error))
                    continue
                async with bell_of(client, inbox_id, self._asked.wake_on_events) as bell:
                    log_wait(log, client, self._asked)
                    try:
                        found = await self._patiently(partial(self._lease, client, inbox_id), bell)
                    except NotFoundError as error:
                        await clock.async_sleep(self._missing.pause(error))
                        continue
                    # Fired from inside: leaving takes time, and a lease must not be lost to being ended then.
                    yield TriggerEvent(found)
                    self._to_give_back = None  # Airflow has it
                    return

    async def give_back(self) -> None:
        """
        Release a lease whose event Airflow has not taken.

        It logs an event before it takes it, and a trigger may be ended between the two.
        """
        if self._to_give_back is not None:
            given, self._to_give_back = self._to_give_back, None
            await carry_through(_release(*given))

    async def _patiently(self, ask: Callable[[], Awaitable[T | None]], bell: Bell | None) -> T:
        return await patiently(
            ask,
            partial(wait_for, bell),
            rest=partial(wait_for, None) if bell is not None else None,
            inbox=self._asked.inbox,
            poll_interval=self._asked.poll_interval,
            max_poll_interval=self._asked.max_poll_interval,
            log=log,
        )

    async def _lease(self, client: AsyncWorkflowClient, inbox_id: str) -> dict[str, Any] | None:
        """Lease once; the event to fire, or None to wait on."""
        asking = asyncio.ensure_future(self._take(client, inbox_id))
        try:
            answer, text = await asyncio.shield(asking)
        except asyncio.CancelledError:
            await carry_through(_give_back(client, inbox_id, asking))
            raise
        except InboxPausedError as paused:
            return self._paused(inbox_id, paused.paused_reason)
        self._missing.found()
        attributes = answer.get("inbox_attributes") or {}
        if attributes.get("status") == FAILED:
            return {
                "status": FAILED,
                "inbox_id": inbox_id,
                "reason": plain(str(attributes.get("paused_reason") or "no reason given")),
            }
        if self._waits_for is not None and attributes.get("status") != PAUSED:
            log.info("Inbox %s is paused no more", self._asked.inbox)
            self._waits_for = None
        if text:
            self._to_give_back = (client, inbox_id, str(answer["lease_id"]))
            name = metrics.name_of(inbox_id)
            return {"status": "leased", "inbox_id": inbox_id, "inbox_name": name, "lease": text}
        await quarantine.look_in_loop(client, self._asked.inbox)
        return None

    async def _take(self, client: AsyncWorkflowClient, inbox_id: str) -> tuple[types.Lease, str]:
        """What a lease is answered with, and the text that hands it over; an empty one for an empty lease."""
        asked_at, seconds = clock.now(), self._asked.lease_seconds
        answer = await client.send(api.lease_messages(inbox_id, self._asked.lease_limit, seconds))
        lease = HeldLease.of(answer, asked_at, seconds, client.settings.timeout)
        text = ""
        for text in lease.handing_over() if lease else ():
            if not text:
                await asyncio.sleep(0)
        return answer, text

    def _paused(self, inbox_id: str, reason: str) -> dict[str, Any] | None:
        if self._asked.on_paused != "wait":
            return {"status": PAUSED, "inbox_id": inbox_id, "reason": plain(reason)}
        if reason != self._waits_for:
            log.warning(
                "Inbox %s is paused (%s); waiting until it is resumed", self._asked.inbox, plain(reason)
            )
        self._waits_for = reason
        return None


async def _give_back(
    client: AsyncWorkflowClient, inbox_id: str, asking: asyncio.Future[tuple[types.Lease, str]]
) -> None:
    """Release what a lease that is under way brings, as nobody is there any more to work on it."""
    try:
        async with clock.timeout(RELEASE_SECONDS):
            answer, _ = await asking
    except (WorkflowError, asyncio.TimeoutError):
        return
    if answer.get("lease_id"):
        await _release(client, inbox_id, str(answer["lease_id"]))


async def _release(client: AsyncWorkflowClient, inbox_id: str, lease_id: str) -> None:
    """Give a lease back; where that fails it runs out instead."""
    with contextlib.suppress(WorkflowError, asyncio.TimeoutError):
        async with clock.timeout(RELEASE_SECONDS):
            await client.send(api.release_messages(inbox_id, lease_id))
