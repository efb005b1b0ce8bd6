"""``WorkflowInboxTrigger``: waits for messages, leases them, and hands the lease to a deferred sensor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_workflow import quarantine
from airflow_provider_workflow.client import api, types
from airflow_provider_workflow.client.errors import InboxPausedError, WorkflowError
from airflow_provider_workflow.client.inbox_states import FAILED, PAUSED
from airflow_provider_workflow.leases import HeldLease
from airflow_provider_workflow.triggers.arguments import SerializesArguments
from airflow_provider_workflow.triggers.listening import bell_of, find_inbox, wait_for
from airflow_provider_workflow.triggers.patience import patiently
from airflow_provider_workflow.values import plain

if TYPE_CHECKING:
    from airflow_provider_workflow.client.client import AsyncWorkflowClient
    from airflow_provider_workflow.client.events import Bell

log = logging.getLogger(__name__)

T = TypeVar("T")

RELEASE_SECONDS = 10.0
"""How long a trigger that is being ended tries to give its lease back."""


class WorkflowInboxTrigger(SerializesArguments, BaseTrigger):
    """
    Leases messages and fires once, with the lease as one ASCII JSON text (service facts 4, 5).

    Its event is ``{"status": ..., "inbox_id": ...}`` with ``leased`` (and ``lease``), ``paused`` or
    ``initialization_failure`` (and ``reason``), or ``look``, which says that nothing was leased and
    that it is time to look again. It never acknowledges: Airflow may drop an event, and does so
    silently, so that is left to the task that the event resumes.

    It holds arguments only; the connection is looked up when it runs, and no secret is serialised.

    :param inbox: id or name.
    :param workflow_conn_id: id of the Airflow connection.
    :param lease_limit: messages per lease, 1 to 100.
    :param lease_seconds: length of a lease, 1 to 3600 s.
    :param poll_interval: seconds between two polls, above 0; doubles while the inbox stays empty.
    :param max_poll_interval: seconds that it doubles up to.
    :param wake_on_events: also listen to the inbox's event stream.
    :param on_paused: ``fail`` fires for a paused and drained inbox, ``wait`` waits for its resumption.
    :param settle_seconds: seconds to wait before the first lease, 0 or more. A trigger that fires while
        the process that deferred is still ending makes Airflow fail the task.
    :param hold_seconds: where above 0, lease nothing and fire ``look`` after this many seconds.
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
        self._waits_for: str | None = None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """
        Wait, lease, fire once.

        :raises WorkflowError: a fault that waiting does not cure: wrong credentials, no such inbox.
        """
        await asyncio.sleep(max(self.settle_seconds, self.hold_seconds))
        if self.hold_seconds > 0:
            yield TriggerEvent({"status": "look"})
            return
        from airflow_provider_workflow.hooks.workflow import WorkflowHook

        async with WorkflowHook(self.workflow_conn_id).async_client() as client:
            inbox_id = await self._patiently(partial(find_inbox, client, self.inbox), None)
            async with bell_of(client, inbox_id, self.wake_on_events) as bell:
                # Fired from inside: leaving takes time, and a lease must not be lost to being ended then.
                yield TriggerEvent(await self._patiently(partial(self._lease, client, inbox_id), bell))

    async def _patiently(self, ask: Callable[[], Awaitable[T | None]], bell: Bell | None) -> T:
        return await patiently(
            ask,
            partial(wait_for, bell),
            inbox=self.inbox,
            poll_interval=self.poll_interval,
            max_poll_interval=self.max_poll_interval,
            log=log,
        )

    async def _lease(self, client: AsyncWorkflowClient, inbox_id: str) -> dict[str, Any] | None:
        """Lease once; the event to fire, or None to wait on."""
        asking = asyncio.ensure_future(self._take(client, inbox_id))
        try:
            answer, text = await asyncio.shield(asking)
        except asyncio.CancelledError:
            await _give_back(client, inbox_id, asking)
            raise
        except InboxPausedError as paused:
            return self._paused(inbox_id, paused.paused_reason)
        attributes = answer.get("inbox_attributes") or {}
        if attributes.get("status") == FAILED:
            return {
                "status": FAILED,
                "inbox_id": inbox_id,
                "reason": plain(str(attributes.get("paused_reason") or "no reason given")),
            }
        if self._waits_for is not None and attributes.get("status") != PAUSED:
            log.info("Inbox %s is paused no more", self.inbox)
            self._waits_for = None
        if text:
            return {"status": "leased", "inbox_id": inbox_id, "lease": text}
        await quarantine.look_in_loop(client, self.inbox)
        return None

    async def _take(self, client: AsyncWorkflowClient, inbox_id: str) -> tuple[types.Lease, str]:
        """What a lease is answered with, and the text that hands it over; an empty one for an empty lease."""
        asked_at = time.time()
        answer = await client.send(api.lease_messages(inbox_id, self.lease_limit, self.lease_seconds))
        lease = HeldLease.of(answer, asked_at, self.lease_seconds, client.settings.timeout)
        text = ""
        for text in lease.handing_over() if lease else ():
            if not text:
                await asyncio.sleep(0)
        return answer, text

    def _paused(self, inbox_id: str, reason: str) -> dict[str, Any] | None:
        if self.on_paused != "wait":
            return {"status": PAUSED, "inbox_id": inbox_id, "reason": plain(reason)}
        if reason != self._waits_for:
            log.warning("Inbox %s is paused (%s); waiting until it is resumed", self.inbox, plain(reason))
        self._waits_for = reason
        return None


async def _give_back(
    client: AsyncWorkflowClient, inbox_id: str, asking: asyncio.Future[tuple[types.Lease, str]]
) -> None:
    """Release what a lease that is under way brings, as nobody is there any more to work on it."""
    try:
        answer, _ = await asyncio.wait_for(asking, RELEASE_SECONDS)
    except (WorkflowError, asyncio.TimeoutError):
        return
    if answer.get("lease_id"):
        release = client.send(api.release_messages(inbox_id, str(answer["lease_id"])))
        # Where it fails the lease runs out instead.
        with contextlib.suppress(WorkflowError, asyncio.TimeoutError):
            await asyncio.wait_for(release, RELEASE_SECONDS)
